// Measures the time of each step of a running instance, for a profile.
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

// Returns the steady clock's time in nanoseconds.
int64_t SteadyNs();

// Replaces the steps in the frames of one instance, which owns the timer; the loop that runs the
// steps is unchanged.
class StepTimer {
 public:
  struct Times {
    int64_t since_run_began_ns = 0;
    int64_t calls_since_run_began = 0;
    int64_t n_calls = 0;
    std::vector<int64_t> runs_ns;  // total time of the step's calls, per run that reached it
  };

  explicit StepTimer(Instance* instance);
  ~StepTimer();
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

  // Whether a step does the work of an operator; other steps are overhead of the plan.
  static bool IsTimed(const PlanStep& step);

  // Runs a step between two clock readings; all devices of the plan are idle at each reading.
  int32_t Run(const PlanStep& step, const ow_call* call);
  // Returns the timed instance of the plan that continues this plan; it is created at first use.
  // Throws.
  Instance* Next(const std::shared_ptr<const Plan>& plan);
  // Ends a run: combines its readings into one number per step, here and in children.
  void EndRun();
  // Discards the measurements so far, which were warm-up runs.
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
  int64_t clock_ns_;  // duration of one clock reading, which is subtracted
  std::vector<Times> steps_;
  std::vector<std::pair<std::shared_ptr<const Plan>, std::unique_ptr<Instance>>> next_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_STEP_TIMER_H_
