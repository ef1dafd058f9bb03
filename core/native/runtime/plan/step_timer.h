// The time of each step of a running instance, for a profile.
#ifndef OPWRIGHT_RUNTIME_STEP_TIMER_H_
#define OPWRIGHT_RUNTIME_STEP_TIMER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "opwright/abi.h"

namespace opwright {

class Instance;
class Plan;
struct PlanStep;

// Nanoseconds on the steady clock.
int64_t SteadyNs();

// Replaces the steps in the frames of one instance, and belongs to it: the loop over the steps is
// independent of it.
class StepTimer {
 public:
  struct Times {
    int64_t since_run_began_ns = 0;
    int64_t calls_since_run_began = 0;
    int64_t n_calls = 0;
    std::vector<int64_t> runs_ns;  // of each run that reached the step, all its calls together
  };

  explicit StepTimer(Instance* instance);
  ~StepTimer();
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

  // Whether a step is operators' work; the others are the plan's overhead.
  static bool IsTimed(const PlanStep& step);

  // Runs a step between two readings of the clock, every device of the plan at rest at both.
  int32_t Run(const PlanStep& step, const ow_call* call);
  // The timed instance of the plan that continues this one; created at first use. Throws.
  Instance* Next(const std::shared_ptr<const Plan>& plan);
  // Ends a run: its readings become one figure of each step, here and in children.
  void EndRun();
  // Discards the runs so far, which were the warm-up of the kernels.
  void Clear();

  const Instance& instance() const { return instance_; }
  const std::vector<Times>& steps() const { return steps_; }  // in the order of the plan
  const std::vector<std::pair<std::shared_ptr<const Plan>, std::unique_ptr<Instance>>>& next()
      const {
    return next_;
  }

 private:
  template <typename Function>
  void ForEachInner(const Function& function);

  Instance& instance_;
  int64_t clock_ns_;  // one reading, which is not part of the step's work
  std::vector<Times> steps_;
  std::vector<std::pair<std::shared_ptr<const Plan>, std::unique_ptr<Instance>>> next_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_STEP_TIMER_H_
