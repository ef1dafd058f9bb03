// Places the steps that release the GIL and check for Ctrl-C.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan_builder.h"
#include "runtime/plan/run.h"

namespace opwright {

namespace {

// The minimum duration of native spans that release the GIL: reacquiring it from a busy Python
// thread can take 5 ms (the switch interval), which is not worth it for shorter spans.
constexpr uint64_t kReleaseNs = 50'000;
constexpr uint64_t kPollNs = 1'000'000;

PlanStep Structural(StepKind kind, ow_run_fn run) {
  PlanStep step;
  step.kind = kind;
  step.run = run;
  return step;
}

// Whether a step may wait for another process, during which other Python threads should run.
bool Blocks(const PlanStep& step) {
  return step.kind == StepKind::kKernel && (step.prepared->kernel().flags & OW_KERNEL_BLOCKS) != 0;
}

// Moves the steps that compute constants out of the plan.
std::vector<PlanStep> TakeConstants(Plan* plan) {
  auto& steps = plan->steps;
  const auto end = steps.begin() + static_cast<std::ptrdiff_t>(plan->n_constant);
  std::vector<PlanStep> constants(std::make_move_iterator(steps.begin()),
                                  std::make_move_iterator(end));
  steps.erase(steps.begin(), end);
  return constants;
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
    bool blocks = false;
    for (; end < steps.size() && !steps[end].needs_gil; ++end) {
      total_ns += steps[end].estimate_ns;
      blocks = blocks || Blocks(steps[end]);
    }
    const bool release = blocks || total_ns >= kReleaseNs;
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

void InsertSpans(Plan* plan) {
  std::string refusal;
  std::vector<PlanStep> constants = InsertSpans(TakeConstants(plan));
  auto& steps = plan->steps;
  const StepRange graph = FindCapturable(*plan, &refusal);
  const auto at = [&steps](size_t i) { return steps.begin() + static_cast<std::ptrdiff_t>(i); };
  const bool runs_python = std::any_of(at(graph.begin), at(graph.end),
                                       [](const PlanStep& step) { return step.needs_gil; });
  if (!runs_python) {
    steps = InsertSpans(std::move(steps));
    if (refusal.empty()) plan->graph = FindCapturable(*plan, &refusal);
  } else {
    const auto move = [&at](size_t begin, size_t end) {
      return std::vector<PlanStep>(std::make_move_iterator(at(begin)),
                                   std::make_move_iterator(at(end)));
    };
    std::vector<PlanStep> result = InsertSpans(move(0, graph.begin));
    plan->graph = {result.size(), result.size() + graph.end - graph.begin};
    std::vector<PlanStep> inside = move(graph.begin, graph.end);
    std::vector<PlanStep> behind = InsertSpans(move(graph.end, steps.size()));
    result.insert(result.end(), std::make_move_iterator(inside.begin()),
                  std::make_move_iterator(inside.end()));
    result.insert(result.end(), std::make_move_iterator(behind.begin()),
                  std::make_move_iterator(behind.end()));
    steps = std::move(result);
  }
  if (plan->graph.empty()) plan->RefuseCapture(refusal.c_str());
  plan->n_constant = constants.size();
  if (!plan->graph.empty()) {
    plan->graph = {plan->graph.begin + constants.size(), plan->graph.end + constants.size()};
  }
  steps.insert(steps.begin(), std::make_move_iterator(constants.begin()),
               std::make_move_iterator(constants.end()));
}

}  // namespace opwright
