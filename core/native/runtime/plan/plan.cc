#include "runtime/plan/plan.h"

#include <array>

#include "runtime/border.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {
// The maximum number of idle instances besides the hot instance. Each instance has an arena, so a
// burst of threads must not leave more instances.
constexpr size_t kMaxIdle = 7;
}  // namespace

Plan::Plan() { idle_.reserve(kMaxIdle); }

Plan::~Plan() {
  if (is_counted_.load(std::memory_order_acquire)) IdleMemory::Get().Remove(place_);
  delete hot_.load(std::memory_order_acquire);
  for (Instance* instance : idle_) delete instance;
}

Instance* Plan::Acquire(const Scope* scope) const {
  Instance* instance = hot_.exchange(nullptr, std::memory_order_acq_rel);
  if (instance != nullptr) return instance;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      size_t chosen = idle_.size() - 1;
      for (size_t i = 0; i < idle_.size(); ++i) {
        if (idle_[i]->scope() == scope) chosen = i;
      }
      instance = idle_[chosen];
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(chosen));
      return instance;
    }
  }
  // The instance is created outside the lock, since binding a Python kernel may wait for the GIL.
  auto made = std::make_unique<Instance>(*this, nullptr, nullptr);
  made->Build();
  n_instances_.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

bool Plan::Keep(Instance* instance) const noexcept {
  Instance* expected = nullptr;
  if (hot_.compare_exchange_strong(expected, instance, std::memory_order_acq_rel)) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() == kMaxIdle) return false;
  idle_.push_back(instance);
  return true;
}

void Plan::GiveBack(Instance* instance) const noexcept {
  if (!is_counted_.load(std::memory_order_relaxed)) {
    if (!Keep(instance)) Drop(instance);
    return;
  }
  if (keeps_memory()) {
    instance->UncountMemory();
    if (!Keep(instance)) Drop(instance);
    return;
  }
  was_used_.store(true, std::memory_order_relaxed);
  // Dropping unbinds kernels; inside another plugin, this could wait for a lock that the plugin
  // holds.
  const bool is_large = instance->CountMemory() > IdleMemory::kMostOfOne;
  if ((is_large && !InsidePlugin::is_here()) || !Keep(instance)) Drop(instance);
  IdleMemory::Get().KeepBound();
}

void Plan::Drop(Instance* instance) const noexcept {
  n_instances_.fetch_sub(1, std::memory_order_relaxed);
  delete instance;
}

void Plan::DropIdle() const noexcept {
  while (true) {
    Instance* instance = hot_.exchange(nullptr, std::memory_order_acq_rel);
    if (instance == nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (idle_.empty()) return;
      instance = idle_.back();
      idle_.pop_back();
    }
    Drop(instance);
  }
}

// Drops idle instances for which `function` returns false. No run can use these instances
// meanwhile; a new run creates its own instance.
template <typename Function>
void Plan::ForEachIdle(const Function& function) const {
  std::array<Instance*, kMaxIdle + 1> taken;
  size_t n_taken = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Instance* instance : idle_) taken[n_taken++] = instance;
    idle_.clear();
  }
  Instance* hot = hot_.exchange(nullptr, std::memory_order_acq_rel);
  if (hot != nullptr) taken[n_taken++] = hot;
  while (n_taken > 0) {  // the hot instance first
    Instance* instance = taken[--n_taken];
    if (!function(instance) || !Keep(instance)) Drop(instance);
  }
}

void Plan::KeepMemory(bool keeps) const {
  if (keeps_memory_.exchange(keeps) == keeps || !is_counted_.load(std::memory_order_relaxed))
    return;
  // Dropping unbinds kernels; see GiveBack.
  const bool may_drop = !InsidePlugin::is_here();
  ForEachIdle([keeps, may_drop](Instance* instance) {
    if (!keeps) return instance->CountMemory() <= IdleMemory::kMostOfOne || !may_drop;
    instance->UncountMemory();
    return true;
  });
  if (!keeps) IdleMemory::Get().KeepBound();
}

int64_t Plan::idle_bytes() const {
  int64_t bytes = 0;
  ForEachIdle([&bytes](const Instance* instance) {
    bytes += instance->memory_bytes();
    return true;
  });
  return bytes;
}

bool Plan::HoldsMemory() const {
  return memory_bytes() >= IdleMemory::kFewBytes || !dynamic_values.empty() || !children.empty();
}

void Plan::BoundIdleMemory() const {
  if (bounds_idle_memory_.exchange(true)) return;
  if (HoldsMemory()) {
    place_ = IdleMemory::Get().Add(this);
    is_counted_.store(true, std::memory_order_release);
  }
  for (const Child* child : children) child->plan->BoundIdleMemory();
}

void Plan::RefuseCapture(const char* reason) const noexcept {
  if (!may_capture_.exchange(false, std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    capture_refusal_ = *reason == '\0' ? "its device could not record it" : reason;
  } catch (const std::bad_alloc&) {
    capture_refusal_ = "memory";  // short enough to need no allocation
  }
}

std::string Plan::capture_refusal() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_refusal_;
}

uint64_t Plan::memory_bytes() const {
  uint64_t bytes = 0;
  for (const DeviceMemory& memory : devices) {
    bytes += memory.arena_bytes;
    for (const uint64_t buffer : memory.buffers) bytes += buffer;
  }
  return bytes;
}

uint64_t Plan::whole_bytes() const {
  uint64_t bytes = memory_bytes();
  for (const Staging& one : staging) bytes += one.bytes;
  for (const Child* child : children) bytes += child->plan->whole_bytes();
  return bytes;
}

int64_t Plan::FindExternal(Role role, const std::string& external) const {
  for (size_t i = 0; i < externals.size(); ++i) {
    if (externals[i].role == role && externals[i].name == external) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace opwright
