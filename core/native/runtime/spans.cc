// Where a plan lets go of the GIL, and where it looks for Ctrl-C.
#include "runtime/plan_builder.h"
#include "runtime/run.h"

namespace opwright {

namespace {

// Taking the GIL back beside one busy Python thread can cost 5 ms (its switch interval); a shorter
// native span is not worth that.
constexpr uint64_t kReleaseNs = 50'000;
constexpr uint64_t kPollNs = 1'000'000;

PlanStep Structural(StepKind kind, ow_run_fn run) {
  PlanStep step;
  step.kind = kind;
  step.run = run;
  return step;
}

}  // namespace

std::vector<PlanStep> InsertSpans(std::vector<PlanStep> steps) {
  std::vector<PlanStep> result;
  result.reserve(steps.size() + 2);
  size_t i = 0;
  while (i < steps.size()) {
    if (steps[i].needs_gil) {
      result.push_back(std::move(steps[i++]));
      continue;
    }
    size_t end = i;
    uint64_t total_ns = 0;
    for (; end < steps.size() && !steps[end].needs_gil; ++end) total_ns += steps[end].estimate_ns;
    const bool release = total_ns >= kReleaseNs;
    if (release) result.push_back(Structural(StepKind::kRelease, RunRelease));
    uint64_t since_poll_ns = 0;
    for (; i < end; ++i) {
      since_poll_ns += steps[i].estimate_ns;
      result.push_back(std::move(steps[i]));
      if (since_poll_ns >= kPollNs) {
        result.push_back(Structural(StepKind::kPoll, RunPoll));
        since_poll_ns = 0;
      }
    }
    if (release) result.push_back(Structural(StepKind::kAcquire, RunAcquire));
  }
  return result;
}

}  // namespace opwright
