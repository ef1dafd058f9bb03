// Runs the plans of a bundle on the caller's tensors.
#ifndef OPWRIGHT_RUNTIME_SESSION_H_
#define OPWRIGHT_RUNTIME_SESSION_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/plan/run.h"

namespace opwright {

// Thrown if a run was stopped by Cancel.
struct Cancelled : Error {
  explicit Cancelled(const std::string& who)
      : Error(ErrorKind::kKernel, who + ": the run was cancelled") {}
};

// A session has its own state and runs one call at a time.
class Session {
 public:
  using Tensors = std::vector<const DLTensor*>;

  explicit Session(std::shared_ptr<Bundle> bundle)
      : bundle_(std::move(bundle)), scope_(bundle_->NewScope()) {}

  const Bundle& bundle() const { return *bundle_; }
  // Creates the plan of a batch size and its memory.
  void Warm(int64_t batch);
  // Writes the results into the memory of the outputs. Throws kFeed before anything runs if tensors
  // do not fit, Cancelled, or kKernel with operator and index if an operator fails.
  void Run(const Tensors& inputs, const Tensors& outputs);
  // Stops a started run before its next operator.
  void Cancel() noexcept { is_cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }

  // Copies the variable `name`, which runs of the plan write, to `value`. Throws kVariableNotFound.
  void GetState(const std::string& name, const DLTensor& value);
  void SetState(const std::string& name, const DLTensor& value);

 private:
  class Busy;

  std::shared_ptr<const Tensor> FindState(const std::string& name, const DLTensor& value) const;
  void CheckOutputs(const Tensors& inputs, const Tensors& outputs, int64_t batch) const;
  void RunPlan(const std::shared_ptr<const Plan>& plan, const Tensors& inputs,
               const Tensors& outputs);

  const std::shared_ptr<Bundle> bundle_;
  const std::shared_ptr<Scope> scope_;
  std::atomic<bool> is_busy_{false};
  std::atomic<bool> is_cancelled_{false};
};

// Returns "matmul: operator 3 failed, got ..." for a failed run without a `describe` object.
std::string DescribeFailure(const RunState& state);

// Returns the number of threads that kernels may use: the chosen number, otherwise
// OPWRIGHT_NUM_THREADS, otherwise OMP_NUM_THREADS, otherwise the number of available processors. In
// a forked process, the number is 1. Throws kProgram for an invalid OPWRIGHT_NUM_THREADS.
int32_t ThreadsOfProcess();

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_SESSION_H_
