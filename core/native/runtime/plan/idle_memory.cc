#include "runtime/plan/idle_memory.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "runtime/border.h"
#include "runtime/plan/plan.h"

namespace opwright {

namespace {

// In a forked child, the mutex must not be locked by a thread that does not exist in the child.
std::mutex* fork_mutex = nullptr;

void LockForFork() { fork_mutex->lock(); }
void UnlockAfterFork() { fork_mutex->unlock(); }

}  // namespace

IdleMemory::IdleMemory() {
  fork_mutex = &mutex_;
  pthread_atfork(LockForFork, UnlockAfterFork, UnlockAfterFork);
}

IdleMemory& IdleMemory::Get() noexcept {
  // Never destroyed, since plans may outlive every static at exit; static memory cannot run out.
  alignas(IdleMemory) static std::array<std::byte, sizeof(IdleMemory)> place;
  static auto* memory = new (place.data()) IdleMemory;
  return *memory;
}

IdleMemory::Plans::iterator IdleMemory::Add(const Plan* plan) {
  Plans added{plan};
  const auto place = added.begin();
  const std::lock_guard<std::mutex> lock(mutex_);
  plans_.splice(plans_.end(), added);
  return place;
}

void IdleMemory::Remove(Plans::iterator place) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  plans_.erase(place);
}

void IdleMemory::Shrink() noexcept {
  if (InsidePlugin::is_here()) return;
  size_t most = 0;  // round one clears the marks of plans that have run, round two frees memory
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    most = 2 * plans_.size();
  }
  for (; most > 0 && bytes() > kMostBytes; --most) {
    std::shared_ptr<const Plan> plan;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (plans_.empty()) return;
      plans_.splice(plans_.end(), plans_, plans_.begin());
      plan = plans_.back()->weak_from_this().lock();  // null if its destructor waits for the lock
    }
    if (plan && !plan->keeps_memory() && !plan->ForgetUse()) plan->DropIdle();
  }
}

}  // namespace opwright
