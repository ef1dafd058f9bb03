#include "runtime/plan/step_timer.h"

#include <algorithm>
#include <chrono>

#include "runtime/plan/instance.h"

namespace opwright {

namespace {

int32_t RunTimed(const ow_call* call) {
  const auto* handle = static_cast<const StepHandle*>(call->run_handle);
  return handle->instance->timer()->Run(*handle->step, call);
}

// Returns the minimum of many measurements, to exclude interrupts.
int64_t MeasureClock() {
  constexpr int kReadings = 200;
  int64_t least = SteadyNs();
  for (int i = 0; i < kReadings; ++i) {
    const int64_t begin = SteadyNs();
    least = std::min(least, SteadyNs() - begin);
  }
  return least;
}

int32_t WaitForDevices(const Instance& instance, const ow_call* call) {
  const ow_error error{call->message, call->message_bytes};
  const auto& devices = instance.plan().devices;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    if (devices[i].device->is_host()) continue;
    const int32_t status = devices[i].device->Synchronize(instance.stream(i), &error);
    if (status != OW_OK) return status;
  }
  return OW_OK;
}

}  // namespace

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StepTimer::StepTimer(Instance* instance)
    : instance_(*instance), clock_ns_(MeasureClock()), steps_(instance->plan().steps.size()) {}

StepTimer::~StepTimer() = default;

bool StepTimer::IsTimed(const PlanStep& step) {
  return step.kind == StepKind::kKernel || step.kind == StepKind::kCopy ||
         step.kind == StepKind::kChild;
}

int32_t StepTimer::Run(const PlanStep& step, const ow_call* call) {
  int32_t status = WaitForDevices(instance_, call);
  if (status != OW_OK) return status;
  const int64_t begin = SteadyNs();
  status = step.run(call);
  if (status == OW_OK) status = WaitForDevices(instance_, call);
  const int64_t took_ns = SteadyNs() - begin - clock_ns_;
  Times& times = steps_[static_cast<size_t>(&step - instance_.plan().steps.data())];
  times.since_run_began_ns += std::max<int64_t>(took_ns, 0);
  ++times.calls_since_run_began;
  return status;
}

Instance* StepTimer::Next(const std::shared_ptr<const Plan>& plan) {
  for (const auto& [known, instance] : next_) {
    if (known == plan) return instance.get();
  }
  auto made = std::make_unique<Instance>(*plan, nullptr, nullptr);
  made->Build();
  made->TimeSteps();
  next_.emplace_back(plan, std::move(made));
  return next_.back().second.get();
}

template <typename Function>
void StepTimer::ForEachInner(const Function& function) {
  for (uint32_t i = 0; i < instance_.plan().children.size(); ++i) {
    function(instance_.child(i)->timer());
  }
  for (const auto& next : next_) function(next.second->timer());
}

void StepTimer::EndRun() {
  for (Times& times : steps_) {
    if (times.calls_since_run_began == 0) continue;
    times.runs_ns.push_back(times.since_run_began_ns);
    times.n_calls += times.calls_since_run_began;
    times.since_run_began_ns = times.calls_since_run_began = 0;
  }
  ForEachInner([](StepTimer* inner) { inner->EndRun(); });
}

void StepTimer::Clear() {
  std::fill(steps_.begin(), steps_.end(), Times());
  ForEachInner([](StepTimer* inner) { inner->Clear(); });
}

void Instance::TimeSteps() {
  timer_ = std::make_unique<StepTimer>(this);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (StepTimer::IsTimed(plan_.steps[i])) steps_[i].run = RunTimed;
  }
  for (const auto& child : children_) child->TimeSteps();
}

}  // namespace opwright
