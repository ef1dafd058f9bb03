// The memory, tensors and call frames of one running copy of a plan. Two threads never use an
// instance at the same time.
#ifndef OPWRIGHT_RUNTIME_INSTANCE_H_
#define OPWRIGHT_RUNTIME_INSTANCE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/event.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/run.h"
#include "runtime/plan/step_timer.h"
#include "runtime/status.h"

namespace opwright {

struct Step {
  ow_run_fn run;
  ow_call call;
};

// The target of `ow_call.run_handle`.
struct StepHandle {
  Instance* instance;
  const PlanStep* step;
};

// The owner of a value's memory: a storage, or an object that the caller of the run owns (a Python
// array) and only the caller interprets. Memory without elements has no owner.
struct Owner {
  std::shared_ptr<Storage> storage;
  void* foreign = nullptr;
};

// Describes why an instance does not fit a scope.
struct BindProblem {
  ErrorKind kind = ErrorKind::kProgram;
  std::string message;
};

class Instance {
 public:
  // For a child plan's instance, `parent` is the parent instance, and `child` the entry in it.
  Instance(const Plan& plan, Instance* parent, const Child* child);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Allocates memory, lays out tensors and frames, binds the kernels. Throws.
  void Build();

  const Plan& plan() const { return plan_; }
  const Scope* scope() const { return scope_.get(); }
  bool IsBound(const Scope* scope) const {
    return !plan_.needs_scope || (scope != nullptr && scope_.get() == scope &&
                                  bound_version_ == scope->structure_version());
  }
  // Finds the persistables of the plan and of its children. Returns false and sets `problem` if a
  // persistable does not fit.
  bool Bind(const std::shared_ptr<Scope>& scope, BindProblem* problem);

  // Returns the tensor that kernels get; a faulty kernel may have changed any of its fields.
  DLTensor& tensor(uint32_t value) { return tensors_[value]; }
  // The dims, then the strides that the host uses; they are never passed to kernels.
  const int64_t* dims(uint32_t value) const {
    const Value& info = plan_.values[value];
    return info.kind == ValueKind::kDynamic ? dynamic(value).dims.data()
                                            : plan_.dims.data() + info.dims_begin;
  }
  // Returns `shown` with its constant fields restored from the host's copy.
  DLTensor Restored(uint32_t value, const DLTensor& shown) const;
  void SetExternal(uint32_t external, void* data, void* foreign) {
    ExternalSlot& slot = externals_[external];
    slot.foreign = foreign;
    for (const uint32_t value : plan_.externals[external].values) {
      if (plan_.values[value].bytes != 0) tensors_[value].data = data;
    }
  }
  Owner OwnerOf(uint32_t value) const;
  // The value of a step's argument.
  uint32_t ValueOf(const PlanStep& step, uint32_t arg) const {
    return plan_.args[step.args_begin + arg];
  }

  // The instance's size in bytes, including its children.
  int64_t memory_bytes() const;
  // Counts the instance's bytes, including its children, in IdleMemory; returns the bytes.
  int64_t CountMemory() noexcept;
  void UncountMemory() noexcept {
    if (__builtin_expect(counted_bytes_ == 0, 1)) return;
    IdleMemory::Get().Count(-counted_bytes_);
    counted_bytes_ = 0;
  }

  // Runs all steps. On failure, records the first failed step in `state`.
  int32_t Run(RunState* state) noexcept;
  RunState* state() const { return state_; }
  Instance* child(uint32_t slot) { return children_[slot].get(); }
  void* stream(uint32_t device) const { return streams_[device]; }
  Storage* staging(int64_t i) { return staging_[static_cast<size_t>(i)].get(); }
  // Sets the shape and memory of a dynamic value; throws.
  void Resize(uint32_t value, int32_t ndim, const int64_t* shape);
  // For plans with feeds on the device: MarkFeedsRead records the point after which feeds are not
  // read; WaitForFeeds, called after a run, waits for that point, or for all work if the run ended
  // before it.
  int32_t MarkFeedsRead() noexcept;
  int32_t WaitForFeeds(const ow_error* error) noexcept { return feeds_read_->Wait(error); }
  bool WasResized(uint32_t value) const { return dynamic(value).is_set; }
  // Shares values of this instance with a child, or with the next instance of a chain.
  void BindCaptured(Instance* other,
                    const std::vector<std::pair<uint32_t, uint32_t>>& bindings) noexcept;
  void SetSource(const Instance* source,
                 const std::vector<std::pair<uint32_t, uint32_t>>* bindings) {
    source_ = source;
    source_bindings_ = bindings;
  }
  ow_error error() { return {message_, sizeof(message_)}; }
  // Times every step from now on, also in children. Nothing is recorded or replayed as a graph,
  // since steps of a graph cannot be timed. Called once, after Build.
  void TimeSteps();
  StepTimer* timer() const { return timer_.get(); }  // null unless TimeSteps was called

 private:
  struct ExternalSlot {
    std::shared_ptr<ScopeVariable> variable;  // persistables only, while bound
    std::shared_ptr<const Tensor> tensor;     // persistables only, while bound
    void* foreign = nullptr;                  // valid only during a run
  };
  struct DynamicSlot {
    Shape dims;   // dims and strides
    Shape shown;  // copy of dims and strides for kernels
    std::shared_ptr<Storage> storage;
    bool is_set = false;
  };
  static constexpr uint32_t kConstant = UINT32_MAX;
  struct PackSlot {
    const Step* step;
    const Prepared* prepared;
    ow_pack wish;
    uint32_t arg;
    uint32_t external;  // kConstant: computed from persistables by a step
    const DLTensor* source;
    bool is_shared;   // whether instances and plans share it, as for a natively packed variable
    PackedCopy copy;  // set if it is shared
    std::shared_ptr<Storage> storage;  // set if it is not shared
    DLTensor packed;
    uint64_t version;
    bool is_packed;
  };

  const DynamicSlot& dynamic(uint32_t value) const {
    return dynamic_[static_cast<size_t>(plan_.values[value].index)];
  }
  void AllocateMemory();
  void LayOutTensors();
  void LayOutSteps();
  void ReservePacks();
  void LayOutPacks(const PlanStep& step, Step* frame);
  void BindKernels();
  bool BindExternal(uint32_t external, const std::shared_ptr<Scope>& scope, BindProblem* problem);
  void* Address(uint32_t device, int64_t index) const;
  // Packs variables of the scope, or constants.
  int32_t Pack(bool constants) noexcept;
  int32_t PackShared();
  int32_t PackTogether(const std::vector<size_t>& outdated);
  std::shared_ptr<Storage> TakePackBlock(const std::vector<size_t>& outdated, uint64_t bytes);
  int32_t PackInto(PackSlot* slot, void* destination) noexcept;
  int32_t MakeConstants() noexcept;
  int32_t RunSteps(const StepRange& range) noexcept;
  int32_t RunGraph(const StepRange& range) noexcept;
  std::unique_ptr<Graph> Record(const StepRange& range) noexcept;
  void SetStream(const StepRange& range, void* stream) noexcept;
  void TouchWritten() noexcept;
  // `step` is NULL if no single step failed.
  int32_t Fail(const PlanStep* step, int32_t status) noexcept;

  const Plan& plan_;
  const Instance* source_;
  const std::vector<std::pair<uint32_t, uint32_t>>* source_bindings_;
  std::vector<std::vector<std::shared_ptr<Storage>>> memory_;  // memory of each device
  std::vector<void*> streams_;
  Shape shown_dims_;  // a copy of the plan's dims, which kernels may overwrite
  std::vector<DLTensor> tensors_;
  std::vector<DLTensor*> args_;
  std::vector<Step> steps_;
  std::vector<StepHandle> handles_;
  std::vector<ExternalSlot> externals_;
  std::vector<DynamicSlot> dynamic_;
  std::vector<PackSlot> packs_;
  std::vector<uint64_t> constant_versions_;  // versions of constant_sources when last read
  uint64_t n_times_made_ = 0;                // computations of constants, as their packed version
  bool are_constants_made_ = false;
  std::vector<std::unique_ptr<Instance>> children_;
  std::vector<std::shared_ptr<Storage>> staging_;
  size_t n_bound_ = 0;            // number of steps whose kernel is bound
  std::unique_ptr<Graph> graph_;  // recording of plan_.graph for the currently bound memory
  std::unique_ptr<Event> feeds_read_;
  std::unique_ptr<StepTimer> timer_;
  int64_t counted_bytes_ = 0;  // bytes counted in IdleMemory
  bool has_run_ = false;       // kernels may load and allocate in their first run
  std::shared_ptr<Scope> scope_;
  uint64_t bound_version_ = 0;
  RunState* state_ = nullptr;
  char message_[1024] = {0};
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_INSTANCE_H_
