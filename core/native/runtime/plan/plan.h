// A plan: its steps, in order, and their memory. Built plans are immutable and shared by threads.
#ifndef OPWRIGHT_RUNTIME_PLAN_H_
#define OPWRIGHT_RUNTIME_PLAN_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/capture.h"
#include "runtime/plan/idle_memory.h"
#include "runtime/plan/packs.h"
#include "runtime/plan/prepared.h"
#include "runtime/values/scope.h"

namespace opwright {

class Instance;
class Plan;

enum class ValueKind : int32_t { kArena = 0, kExternal = 1, kNone = 2, kDynamic = 3 };
enum class Role : int32_t { kFeed = 0, kFetch = 1, kPersistable = 2, kCaptured = 3 };

struct Value {
  DLDataType dtype;
  ValueKind kind;
  int32_t ndim;
  uint32_t device;      // index into Plan::devices
  int64_t index;        // arena offset, or index of a buffer, external or dynamic value
  uint64_t dims_begin;  // index into Plan::dims of ndim dims, then ndim strides
  uint64_t bytes;       // bytes from first to last element; 0 while dims are unknown
  bool compact;
};

struct External {
  Role role;
  std::string name;
  bool create;
  std::vector<uint32_t> values;
};

// The memory of one device: an arena, or one buffer per liveness slot.
struct DeviceMemory {
  std::shared_ptr<Device> device;
  uint64_t arena_bytes = 0;
  std::vector<uint64_t> buffers;
};

enum class StepKind {
  kKernel,
  kCopy,
  kSync,
  kPoll,
  kRelease,
  kAcquire,
  kChild,
  kContinue,
  kCheck,
  kFeedsRead
};

// The data of a structural step; its frame's `prepared` points to it.
struct StepDetail {
  virtual ~StepDetail() = default;
};

struct PlanStep {
  StepKind kind = StepKind::kKernel;
  ow_run_fn run = nullptr;
  std::shared_ptr<Prepared> prepared;  // set for kKernel
  std::shared_ptr<StepDetail> detail;  // set for structural steps
  uint64_t args_begin = 0;             // index into Plan::args
  uint64_t slots_begin = 0;            // index into Plan::slot_begin
  uint32_t n_slots = 0;
  uint32_t n_inputs = 0;
  uint32_t device = 0;
  int32_t op_index = -1;
  int64_t workspace_offset = -1;
  uint64_t workspace_bytes = 0;
  uint64_t estimate_ns = 0;
  bool needs_gil = false;
};

// A child plan of a structural step, and the parent's value for each of its externals.
struct Child {
  std::shared_ptr<const Plan> plan;
  std::vector<std::pair<uint32_t, uint32_t>> bindings;
  uint32_t slot = 0;  // index into Instance's children
};

struct CopyDetail : StepDetail {
  uint32_t source = 0;
  uint32_t destination = 0;
};

struct SyncDetail : StepDetail {
  uint32_t device = 0;
};

struct CheckDetail : StepDetail {
  std::vector<uint32_t> values;  // dynamic values that the previous step must have resized
};

struct CallDetail : StepDetail {
  Child child;
};

struct BranchDetail : StepDetail {
  uint32_t condition = 0;
  Child children[2];
};

// Memory of an instance in addition to its arena.
struct Staging {
  uint32_t device;  // index into Plan::devices
  uint64_t bytes;
};

struct Carried {
  uint32_t value;     // value of the parent
  uint32_t external;  // external of the body, if the body reads it
  uint32_t next;      // value of the body with the next content
};

// An array of the parent, or a part of it, with one element along axis 0 per iteration of a loop.
struct Elements {
  int64_t value;        // value of the parent; -1 if it is not read and therefore not stored
  uint32_t external;    // external of the body for the element
  uint64_t offset = 0;  // byte offset of the first iteration's element
  uint64_t bytes = 0;   // bytes per element
  // Index into Instance's staging, to which the element is copied if kernels cannot read it in
  // place; -1 if the body works on the array itself.
  int64_t staging = -1;
};

struct LoopDetail : StepDetail {
  Child body;
  int64_t condition = -1;  // value of the body
  int64_t initial = -1;    // value of the parent
  int64_t max_iterations = -1;
  std::vector<Carried> carried;
  // Index into Instance's staging, or -1. The next content of a carried value may be in another
  // carried value. If it is outside of the body's memory, it is first copied to the staging memory,
  // so that (a, b) -> (b, a) is a swap.
  std::vector<int64_t> staging;
  std::vector<Elements> sequences;  // arrays that are read
  std::vector<Elements> stacks;     // arrays that are written
  int64_t turns = -1;               // value of the parent with the number of iterations
  int64_t turns_taken = -1;         // value of the parent with the number of completed iterations
  bool reverse = false;             // whether the first iteration reads the last element
};

// The end of a plan after which the computed shapes of dynamic values determine the next plan.
struct ContinueDetail : StepDetail {
  struct Known {
    std::vector<Shape> shapes;
    std::shared_ptr<const Plan> plan;
    std::vector<std::pair<uint32_t, uint32_t>> bindings;
  };
  // Returns null after an error that the resolver stores (Python's error indicator).
  using Resolver = std::function<std::shared_ptr<const Plan>(const std::vector<Shape>&)>;

  std::vector<uint32_t> values;
  std::vector<std::pair<uint32_t, std::string>> bindings;
  Resolver resolve;
  const std::vector<std::pair<uint32_t, uint32_t>> no_bindings;
  std::mutex mutex;
  std::vector<std::shared_ptr<const Known>> known;  // guarded; most recent first
};

class Plan : public Retirable, public std::enable_shared_from_this<Plan> {
 public:
  Plan();
  ~Plan() override;
  // Whether unbinding the kernels of its instances calls plugins.
  bool needs_plugin() const { return holds_bound && n_instances() > 0; }

  // Returns an idle instance, preferably one that is bound to `scope`, or a new instance. The
  // caller must return the instance with GiveBack.
  Instance* Acquire(const Scope* scope) const;
  void GiveBack(Instance* instance) const noexcept;
  int64_t n_instances() const { return n_instances_.load(std::memory_order_relaxed); }
  uint64_t memory_bytes() const;
  // The size of an instance in bytes, including loop bodies and the staging memory of loops.
  uint64_t whole_bytes() const;
  // From now on, counts idle instances of this plan and its chain toward the common memory limit.
  // Must be called before the first run.
  void BoundIdleMemory() const;
  bool bounds_idle_memory() const { return bounds_idle_memory_.load(std::memory_order_relaxed); }
  // Sets whether the bound on idle memory ignores this plan's idle instances; this is set for the
  // plan that a callable ran last.
  void KeepMemory(bool keeps) const;
  bool keeps_memory() const { return keeps_memory_.load(std::memory_order_relaxed); }
  // The bytes of its idle instances.
  int64_t idle_bytes() const;
  // Whether the plan has run since the last call of this function.
  bool ForgetUse() const { return was_used_.exchange(false, std::memory_order_relaxed); }
  void DropIdle() const noexcept;
  PlanPacks& packs() const { return packs_; }
  // Returns the external with this role and name, or -1.
  int64_t FindExternal(Role role, const std::string& external) const;
  bool IsDynamic(uint32_t value) const { return values[value].kind == ValueKind::kDynamic; }
  uint32_t n_args(const PlanStep& step) const {
    return slot_begin[step.slots_begin + step.n_slots];
  }

  // Whether `graph` is worth recording, because recording has not been refused for any instance.
  bool may_capture() const { return may_capture_.load(std::memory_order_relaxed); }
  void RefuseCapture(const char* reason) const noexcept;
  void CountGraph() const { n_graphs_.fetch_add(1, std::memory_order_relaxed); }
  int64_t n_graphs() const { return n_graphs_.load(std::memory_order_relaxed); }
  // The reason why steps are launched individually; empty if they are or will be replayed.
  std::string capture_refusal() const;

  std::string name;
  std::vector<DeviceMemory> devices;  // the plan's own device is first
  std::vector<int64_t> dims;
  std::vector<Value> values;
  std::vector<External> externals;
  std::vector<PlanStep> steps;
  std::vector<uint32_t> args;
  std::vector<uint32_t> slot_begin;
  std::vector<uint32_t> fetches;
  std::vector<int64_t> fetch_externals;  // per fetch, the value kernels write, or -1 if copied
  std::vector<uint32_t> feeds;           // externals that are feeds, in order
  std::vector<uint32_t> writes;          // externals that are written persistables
  std::vector<uint32_t> written_feeds;   // indices into `feeds`
  std::vector<const Child*> children;
  std::vector<Staging> staging;  // staging copies of loops
  std::vector<uint32_t> dynamic_values;
  // The number of initial steps that run only if a version of their inputs, the externals below,
  // has changed.
  size_t n_constant = 0;
  std::vector<uint32_t> constant_sources;
  uint64_t n_python_steps = 0;
  uint64_t estimate_ns = 0;
  bool is_brief = false;   // has multithreaded kernels, but too little work to wake a thread
  uint32_t checks = 0;     // bits of checked_steps.h
  int64_t held_bytes = 0;  // estimated size of the plan and its kernels, without instances
  bool has_continuation = false;
  bool needs_gil = false;
  bool needs_scope = false;        // it or a child has persistables
  bool holds_bound = false;        // an instance has bound kernels or is on a plugin's device
  bool has_device_feeds = false;   // has device feeds, and a step after which they are unused
  StepRange graph;                 // empty if its device cannot record the plan
  std::shared_ptr<void> describe;  // owned by the binding

 private:
  bool Keep(Instance* instance) const noexcept;  // false if enough instances are idle
  template <typename Function>
  void ForEachIdle(const Function& function) const;
  void Drop(Instance* instance) const noexcept;
  bool HoldsMemory() const;

  // One idle instance is in an atomic slot, so the usual call takes no lock.
  mutable std::atomic<Instance*> hot_{nullptr};
  mutable std::atomic<int64_t> n_instances_{0};
  mutable std::mutex mutex_;
  mutable std::vector<Instance*> idle_;  // guarded
  mutable std::atomic<bool> may_capture_{true};
  mutable std::atomic<int64_t> n_graphs_{0};
  mutable std::string capture_refusal_;  // guarded
  mutable std::atomic<bool> bounds_idle_memory_{false};
  mutable std::atomic<bool> is_counted_{false};  // whether IdleMemory counts it, at place_
  mutable std::atomic<bool> was_used_{false};
  mutable std::atomic<bool> keeps_memory_{false};
  mutable IdleMemory::Plans::iterator place_;
  mutable PlanPacks packs_;
};

// Holds an instance until it goes out of scope, and also the plan, unless the plan is borrowed from
// an owner with a longer lifetime.
class Lease {
 public:
  Lease(const Plan& plan, const Scope* scope) : plan_(&plan), instance_(plan.Acquire(scope)) {}
  Lease(std::shared_ptr<const Plan> plan, const Scope* scope) : Lease(*plan, scope) {
    owned_ = std::move(plan);
  }
  Lease(Lease&& other) noexcept
      : owned_(std::move(other.owned_)), plan_(other.plan_), instance_(other.instance_) {
    other.instance_ = nullptr;
  }
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (instance_ != nullptr) plan_->GiveBack(instance_);
  }
  Instance* operator->() const { return instance_; }
  Instance* get() const { return instance_; }

 private:
  std::shared_ptr<const Plan> owned_;
  const Plan* plan_;
  Instance* instance_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PLAN_H_
