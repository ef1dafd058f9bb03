#include "runtime/retired.h"

#include "runtime/border.h"

namespace opwright {

__thread int32_t n_plugins_entered = 0;

std::atomic<Retirable*> newest_retired{nullptr};

void Retire(Retirable* object) noexcept {
  object->next_ = newest_retired.load(std::memory_order_relaxed);
  while (!newest_retired.compare_exchange_weak(object->next_, object, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

void FreeQueue() noexcept {
  if (InsidePlugin::is_here()) return;
  const InsidePlugin inside;
  // If a freed object holds the last reference to another object, that object is queued in turn.
  while (Retirable* newest = newest_retired.exchange(nullptr, std::memory_order_acquire)) {
    Retirable* oldest = nullptr;
    while (newest != nullptr) {
      Retirable* older = std::exchange(newest->next_, oldest);
      oldest = std::exchange(newest, older);
    }
    while (oldest != nullptr) delete std::exchange(oldest, oldest->next_);
  }
}

}  // namespace opwright
