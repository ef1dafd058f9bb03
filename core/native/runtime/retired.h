// A queue of unused objects, which are freed when their plugin can be called.
#ifndef OPWRIGHT_RUNTIME_RETIRED_H_
#define OPWRIGHT_RUNTIME_RETIRED_H_

#include <atomic>
#include <memory>
#include <utility>

namespace opwright {

// A destructor runs wherever the last reference is dropped, possibly in the garbage collector,
// which may start inside a plugin's function that holds the plugin's lock. So destructors do not
// call plugins. Instead, the object is added to a queue, which is freed when a call enters the
// runtime from outside of any plugin.
class Retirable {
 public:
  Retirable() = default;
  virtual ~Retirable() = default;
  Retirable(const Retirable&) = delete;
  Retirable& operator=(const Retirable&) = delete;

 private:
  friend void Retire(Retirable* object) noexcept;
  friend void FreeQueue() noexcept;

  Retirable* next_ = nullptr;
};

// Queues an object without a lock or an allocation.
void Retire(Retirable* object) noexcept;

// Frees the queued objects, unless this thread is inside a plugin.
void FreeQueue() noexcept;

extern std::atomic<Retirable*> newest_retired;

// Frees the queue, with a fast path for an empty queue.
inline void FreeRetired() noexcept {
  if (__builtin_expect(newest_retired.load(std::memory_order_relaxed) != nullptr, 0)) FreeQueue();
}

// Deletes an object, immediately if this needs no plugin.
struct Retirer {
  template <typename T>
  void operator()(T* object) const noexcept {
    if (object->needs_plugin()) {
      Retire(object);
    } else {
      delete object;
    }
  }
};

template <typename T, typename... Args>
std::shared_ptr<T> MakeRetirable(Args&&... args) {
  return {new T(std::forward<Args>(args)...), Retirer()};
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_RETIRED_H_
