// A plan: its steps, in order, and their memory. Immutable once built; shared by threads.
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
  int64_t index;        // arena offset, buffer, external, or number among the dynamic values
  uint64_t dims_begin;  // into Plan::dims: ndim dims, then ndim strides
  uint64_t bytes;       // of the memory from first to last element; 0 while dims are unknown
  bool compact;
};

struct External {
  Role role;
  std::string name;
  bool create;
  std::vector<uint32_t> values;
};

// Memory of one device: an arena, or one buffer for each liveness slot.
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
  std::shared_ptr<Prepared> prepared;  // kKernel
  std::shared_ptr<StepDetail> detail;  // structural steps
  uint64_t args_begin = 0;             // into Plan::args
  uint64_t slots_begin = 0;            // into Plan::slot_begin
  uint32_t n_slots = 0;
  uint32_t n_inputs = 0;
  uint32_t device = 0;
  int32_t op_index = -1;
  int64_t workspace_offset = -1;
  uint64_t workspace_bytes = 0;
  uint64_t estimate_ns = 0;
  bool needs_gil = false;
};

// A child plan of a structural step, and the value of the parent for each of its externals.
struct Child {
  std::shared_ptr<const Plan> plan;
  std::vector<std::pair<uint32_t, uint32_t>> bindings;
  uint32_t slot = 0;  // into Instance's children
};

struct CopyDetail : StepDetail {
  uint32_t source = 0;
  uint32_t destination = 0;
};

struct SyncDetail : StepDetail {
  uint32_t device = 0;
};

struct CheckDetail : StepDetail {
  std::vector<uint32_t> values;  // dynamic ones that the previous step must have resized
};

struct CallDetail : StepDetail {
  Child child;
};

struct BranchDetail : StepDetail {
  uint32_t condition = 0;
  Child children[2];
};

// Memory of an instance besides its arena.
struct Staging {
  uint32_t device;  // index into Plan::devices
  uint64_t bytes;
};

struct Carried {
  uint32_t value;     // of the parent
  uint32_t external;  // of the body, if it reads it
  uint32_t next;      // of the body: the next content
};

// An array of the parent with one element, along axis 0, for each iteration of a loop, or a part.
struct Elements {
  int64_t value;        // of the parent; -1: it is not read, and so not stored
  uint32_t external;    // of the body: the element
  uint64_t offset = 0;  // of the first iteration's element, in bytes
  uint64_t bytes = 0;   // of one
  // The element is copied if kernels cannot read it in place. Index into Instance's
  // staging, or -1: the body works on the array itself.
  int64_t staging = -1;
};

struct LoopDetail : StepDetail {
  Child body;
  int64_t condition = -1;  // value of the body
  int64_t initial = -1;    // value of the parent
  int64_t max_iterations = -1;
  std::vector<Carried> carried;
  // For a next content that is in outside memory, which may be another carried value's: a copy is
  // made first, so that (a, b) -> (b, a) is a swap. Index into Instance's staging, or -1.
  std::vector<int64_t> staging;
  std::vector<Elements> sequences;  // read
  std::vector<Elements> stacks;     // written
  int64_t turns = -1;               // value of the parent: the number of iterations
  int64_t turns_taken = -1;         // value of the parent: the number of completed iterations
  bool reverse = false;             // the first iteration reads the last element
};

// The end of a segment: the shapes of its values decide which plan continues.
struct ContinueDetail : StepDetail {
  struct Known {
    std::vector<Shape> shapes;
    std::shared_ptr<const Plan> plan;
    std::vector<std::pair<uint32_t, uint32_t>> bindings;
  };
  // Null after an error that the resolver stores (Python's error indicator).
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
  // Unbinds the kernels of its instances; waits with their frames and memory.
  bool needs_plugin() const { return holds_bound && n_instances() > 0; }

  // An idle instance, one bound to `scope` if there is one, or a new one. It must be returned.
  Instance* Acquire(const Scope* scope) const;
  void GiveBack(Instance* instance) const noexcept;
  int64_t n_instances() const { return n_instances_.load(std::memory_order_relaxed); }
  uint64_t memory_bytes() const;
  // Bytes of an instance, with its bodies and the staging memory of their loops.
  uint64_t whole_bytes() const;
  // From now on the memory of idle instances is bounded, together with other such plans; also for
  // the plans of its chain. Before the first run.
  void BoundIdleMemory() const;
  bool bounds_idle_memory() const { return bounds_idle_memory_.load(std::memory_order_relaxed); }
  // Whether the bound excludes its idle instances and does not count them, as in the plan that a
  // callable ran last.
  void KeepMemory(bool keeps) const;
  bool keeps_memory() const { return keeps_memory_.load(std::memory_order_relaxed); }
  // The bytes of its idle instances.
  int64_t idle_bytes() const;
  // Whether it has run since the last call of this function.
  bool ForgetUse() const { return was_used_.exchange(false, std::memory_order_relaxed); }
  void DropIdle() const noexcept;
  PlanPacks& packs() const { return packs_; }
  // The external of this role and name, or -1.
  int64_t FindExternal(Role role, const std::string& external) const;
  bool IsDynamic(uint32_t value) const { return values[value].kind == ValueKind::kDynamic; }
  uint32_t n_args(const PlanStep& step) const {
    return slot_begin[step.slots_begin + step.n_slots];
  }

  // Whether `graph` is worth recording: no instance has met a refusal.
  bool may_capture() const { return may_capture_.load(std::memory_order_relaxed); }
  void RefuseCapture(const char* reason) const noexcept;
  void CountGraph() const { n_graphs_.fetch_add(1, std::memory_order_relaxed); }
  int64_t n_graphs() const { return n_graphs_.load(std::memory_order_relaxed); }
  // Why the steps are launched individually; empty if they are or will be replayed.
  std::string capture_refusal() const;

  std::string name;
  std::vector<DeviceMemory> devices;  // the plan's own first
  std::vector<int64_t> dims;
  std::vector<Value> values;
  std::vector<External> externals;
  std::vector<PlanStep> steps;
  std::vector<uint32_t> args;
  std::vector<uint32_t> slot_begin;
  std::vector<uint32_t> fetches;
  std::vector<int64_t> fetch_externals;  // by fetch: the value that kernels write, -1: it is copied
  std::vector<uint32_t> feeds;           // externals, in order
  std::vector<uint32_t> writes;          // externals: persistables
  std::vector<uint32_t> written_feeds;   // places in `feeds`
  std::vector<const Child*> children;
  std::vector<Staging> staging;  // staging copies of loops
  std::vector<uint32_t> dynamic_values;
  // The first steps run only when a version of their inputs, these externals, has changed.
  size_t n_constant = 0;
  std::vector<uint32_t> constant_sources;
  uint64_t n_python_steps = 0;
  uint64_t estimate_ns = 0;
  bool is_brief = false;   // has kernels for several threads, and too little work to wake one
  uint32_t checks = 0;     // bits of checked_steps.h
  int64_t held_bytes = 0;  // an estimate: of the plan itself, without instances, and its kernels
  bool has_continuation = false;
  bool needs_gil = false;
  bool needs_scope = false;        // it or a child has persistables
  bool holds_bound = false;        // an instance has bound kernels or is on a plugin's device
  bool has_device_feeds = false;   // and a step after which they are not read
  StepRange graph;                 // empty if its device cannot record the plan
  std::shared_ptr<void> describe;  // owned by the binding

 private:
  bool Keep(Instance* instance) const noexcept;  // false: enough of them wait
  template <typename Function>
  void ForEachIdle(const Function& function) const;
  void Drop(Instance* instance) const noexcept;
  bool HoldsMemory() const;

  // One instance waits in an atomic slot, so that the usual call takes no lock.
  mutable std::atomic<Instance*> hot_{nullptr};
  mutable std::atomic<int64_t> n_instances_{0};
  mutable std::mutex mutex_;
  mutable std::vector<Instance*> idle_;  // guarded
  mutable std::atomic<bool> may_capture_{true};
  mutable std::atomic<int64_t> n_graphs_{0};
  mutable std::string capture_refusal_;  // guarded
  mutable std::atomic<bool> bounds_idle_memory_{false};
  mutable std::atomic<bool> is_counted_{false};  // in IdleMemory, at place_
  mutable std::atomic<bool> was_used_{false};
  mutable std::atomic<bool> keeps_memory_{false};
  mutable IdleMemory::Plans::iterator place_;
  mutable PlanPacks packs_;
};

// Holds an instance until it goes out of scope; also the plan, unless that is borrowed from an
// owner with a longer life.
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
