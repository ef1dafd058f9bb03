// What has no user left and is freed by a plugin: it waits until no plugin is in the way.
#ifndef OPWRIGHT_RUNTIME_RETIRED_H_
#define OPWRIGHT_RUNTIME_RETIRED_H_

#include <atomic>
#include <memory>
#include <utility>

namespace opwright {

// A destructor runs wherever the last reference goes: also in the garbage collector, which may
// start inside a plugin's function that holds the plugin's lock. So no destructor calls a plugin
// then and there. The object waits in a queue, which is freed where a call enters the runtime and
// its thread is inside of no plugin.
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

// Takes over an object; needs no lock and no memory.
void Retire(Retirable* object) noexcept;

// Frees what waits, unless this thread is inside of a plugin.
void FreeQueue() noexcept;

extern std::atomic<Retirable*> newest_retired;

// The same for the usual case, in which nothing waits.
inline void FreeRetired() noexcept {
  if (__builtin_expect(newest_retired.load(std::memory_order_relaxed) != nullptr, 0)) FreeQueue();
}

// Deletes an object, at once where no plugin is needed for it.
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
