// Runs of a bundle on tensors of the caller.
#ifndef OPWRIGHT_RUNTIME_SESSION_H_
#define OPWRIGHT_RUNTIME_SESSION_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/plan/run.h"

namespace opwright {

// A run was stopped by Cancel.
struct Cancelled : Error {
  explicit Cancelled(const std::string& who)
      : Error(ErrorKind::kKernel, who + ": the run was cancelled") {}
};

// Its own state, for one run at a time.
class Session {
 public:
  using Tensors = std::vector<const DLTensor*>;

  explicit Session(std::shared_ptr<Bundle> bundle)
      : bundle_(std::move(bundle)), scope_(bundle_->NewScope()) {}

  const Bundle& bundle() const { return *bundle_; }
  // Creates the plan of a batch and its memory.
  void Warm(int64_t batch);
  // Writes into the memory of the outputs. Throws kFeed before anything runs if tensors do not fit;
  // Cancelled; kKernel with operator and index if one fails.
  void Run(const Tensors& inputs, const Tensors& outputs);
  // Ends a started run before its next operator.
  void Cancel() noexcept { is_cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }

  // A variable that runs write. Throws kVariableNotFound.
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

// "matmul: operator 3 failed, got ...", of a run without another object to describe it.
std::string DescribeFailure(const RunState& state);

// How many threads kernels may use: the chosen number, else OPWRIGHT_NUM_THREADS, else the
// processors of the process; one in a process that a fork made. Throws kProgram for a bad variable.
int32_t ThreadsOfProcess();

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_SESSION_H_
