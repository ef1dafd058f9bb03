// Collects the values and steps of one plan, checks them, and lays out the structural steps.
#ifndef OPWRIGHT_RUNTIME_PLAN_BUILDER_H_
#define OPWRIGHT_RUNTIME_PLAN_BUILDER_H_

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/status.h"

namespace opwright {

using Bindings = std::vector<std::pair<uint32_t, uint32_t>>;

// A requested kernel step.
struct KernelRequest {
  std::shared_ptr<Prepared> prepared;
  std::vector<uint32_t> args;
  std::vector<uint32_t> slot_begin;
  uint32_t n_inputs = 0;
  int32_t op_index = -1;
  int64_t workspace_offset = -1;
  uint64_t workspace_bytes = 0;
  uint64_t estimate_ns = 0;
  std::shared_ptr<Device> device;  // null stands for the plan's device
};

struct LoopRequest {
  std::shared_ptr<const Plan> body;
  int64_t condition = -1;
  std::vector<Carried> carried;
  Bindings bindings;
  int64_t max_iterations = -1;
  int32_t op_index = -1;
  int64_t initial = -1;
  std::vector<Elements> sequences;
  std::vector<Elements> stacks;
  int64_t turns = -1;
  int64_t turns_taken = -1;
  bool reverse = false;
};

// Every function throws kProgram or kShape for malformed arguments, with a message that begins with
// the plan's name; ids count from 0.
class PlanBuilder {
 public:
  // `checks` has bits of checked_steps.h.
  PlanBuilder(const std::shared_ptr<Device>& device, const std::string& name, uint32_t checks = 0);

  uint32_t AddValue(DLDataType dtype, const Shape& shape, ValueKind kind, int64_t index,
                    const std::shared_ptr<Device>& device, const Shape* strides);
  uint32_t AddExternal(Role role, const std::string& name, bool create);
  void SetArena(uint64_t bytes, const std::shared_ptr<Device>& device);
  void SetBuffers(std::vector<uint64_t> sizes, const std::shared_ptr<Device>& device);
  uint64_t arena_bytes() const { return plan().devices[0].arena_bytes; }

  void AddKernel(KernelRequest request);
  // Marks the kernels so far as constant: they read only each other's results, and persistables
  // that no step writes.
  void EndConstants();
  void AddCopy(uint32_t source, uint32_t destination, int32_t op_index);
  // Adds the step after which no feed on the plan's device is read.
  void AddFeedsRead();
  void AddSync(const std::shared_ptr<Device>& device);
  void AddCall(const std::shared_ptr<const Plan>& child, Bindings bindings, int32_t op_index);
  void AddBranch(uint32_t condition, std::pair<std::shared_ptr<const Plan>, Bindings> first,
                 std::pair<std::shared_ptr<const Plan>, Bindings> second, int32_t op_index);
  void AddLoop(LoopRequest request);
  void AddContinuation(std::vector<uint32_t> values, ContinueDetail::Resolver resolve,
                       std::vector<std::pair<uint32_t, std::string>> bindings);
  void SetWrites(const std::vector<std::string>& names);
  void AddFetch(uint32_t value);
  // Places the blocks and the workspaces. Before this call, the index of an arena value is the
  // number of its block, and several values may share a block. Two blocks that are in use at the
  // same time are disjoint. `kept` are values, in addition to the fetches, that are needed after
  // the last step.
  void PlanMemory(const std::vector<uint32_t>& kept);

  // Builds the plan; the builder is empty afterward. `kernel_bytes` is the size of all kernels
  // prepared for this plan, including unused kernels.
  std::shared_ptr<const Plan> Build(std::shared_ptr<void> describe, int64_t kernel_bytes = 0);

 private:
  Plan& plan();
  const Plan& plan() const;
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(ErrorKind::kProgram, "plan '", plan().name, "': ", parts...);
  }
  uint32_t DeviceIndex(const std::shared_ptr<Device>& device);
  const Value& CheckedValue(uint32_t value, const char* what) const;
  void CheckCondition(const Plan& owner, int64_t value) const;
  void CheckMemory(uint64_t bytes) const;
  void CheckPlacement(const Value& value) const;
  void CheckBlock(uint32_t device, int64_t index, uint64_t bytes, const char* what) const;
  void CheckExternals() const;
  bool HoldsBound() const;
  int64_t HeldBytes() const;
  void ListFetchExternals();
  void CheckPacks(const KernelRequest& request) const;
  bool IsConstant(const Value& value) const;
  Child MakeChild(const std::shared_ptr<const Plan>& child, Bindings bindings,
                  const std::vector<uint32_t>& given);
  void CheckCarried(const LoopRequest& request) const;
  void CheckTurns(const LoopRequest& request) const;
  void AddElements(const Plan& body, int64_t turns, std::vector<Elements>* list);
  void CheckGrowing(const Elements& one, const Value& array, const Value& element) const;
  int64_t AddStaging(uint32_t device, uint64_t bytes);
  void CheckBinding(uint32_t value, const Plan& child, uint32_t external) const;
  PlanStep& AddStep(StepKind kind, ow_run_fn run, int32_t op_index,
                    std::shared_ptr<StepDetail> detail);
  void AddChildStep(ow_run_fn run, int32_t op_index, std::shared_ptr<StepDetail> detail,
                    const std::vector<const Child*>& children, uint64_t repeats);

  std::shared_ptr<Plan> plan_;
  std::vector<std::string> writes_;
  std::set<std::pair<uint32_t, int64_t>> constants_;  // device and index of constants' memory
};

// Inserts steps that release the GIL around long native spans and check for Ctrl-C.
std::vector<PlanStep> InsertSpans(std::vector<PlanStep> steps);
// Inserts these steps into a plan, and finds its graph. A graph with Python steps contains no
// spans, since a replay could not track the GIL.
void InsertSpans(Plan* plan);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PLAN_BUILDER_H_
