// Limits the memory that plans keep between calls.
#ifndef OPWRIGHT_RUNTIME_IDLE_MEMORY_H_
#define OPWRIGHT_RUNTIME_IDLE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>

namespace opwright {

class Plan;

// One object limits the memory of the whole process, which may have hundreds of operators and
// networks, each with many plans. The object counts the memory of idle instances, except in the
// plan that each callable ran last. Beyond the bound, idle instances are dropped, first in plans
// that have not run recently; their plans stay, and create new instances when they run.
class IdleMemory {
 public:
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  // A larger instance is not kept, since many other instances would be dropped for it.
  static constexpr int64_t kMostOfOne = kMostBytes / 4;
  // Plans that need less memory are not counted, since the plans themselves need about as much.
  static constexpr uint64_t kFewBytes = 4096;

  using Plans = std::list<const Plan*>;

  IdleMemory(const IdleMemory&) = delete;
  IdleMemory& operator=(const IdleMemory&) = delete;
  static IdleMemory& Get() noexcept;

  Plans::iterator Add(const Plan* plan);
  void Remove(Plans::iterator place) noexcept;

  void Count(int64_t bytes) noexcept { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Drops idle instances until the bound is met. Inside a plugin this does nothing, and a later
  // call drops the instances, since unbinding kernels might wait for a lock that the plugin holds.
  void KeepBound() noexcept {
    if (__builtin_expect(bytes() > kMostBytes, 0)) Shrink();
  }

 private:
  IdleMemory();
  void Shrink() noexcept;

  std::mutex mutex_;
  Plans plans_;  // guarded; the next plan to inspect is first
  std::atomic<int64_t> bytes_{0};
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_IDLE_MEMORY_H_
