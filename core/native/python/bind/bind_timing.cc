// Plan.time_steps for Python: times whole runs, and runs with a clock around each step.
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/intake.h"
#include "python/call/run_frame.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Returns the children of a step, as indices into the children of its plan.
std::vector<uint32_t> ChildrenOf(const PlanStep& step) {
  if (const auto* call = dynamic_cast<const CallDetail*>(step.detail.get())) {
    return {call->child.slot};
  }
  if (const auto* loop = dynamic_cast<const LoopDetail*>(step.detail.get())) {
    return {loop->body.slot};
  }
  const auto* branch = dynamic_cast<const BranchDetail*>(step.detail.get());
  if (branch == nullptr) return {};
  return {branch->children[0].slot, branch->children[1].slot};
}

// Returns (plan, steps, shapes, next), where a step is (op_index, is_copy, runs_ns, n_calls,
// children).
py::tuple ToPython(Instance* instance, const std::shared_ptr<const Plan>& plan) {
  const StepTimer& timer = *instance->timer();
  py::list steps;
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const PlanStep& step = plan->steps[i];
    if (!StepTimer::IsTimed(step)) continue;
    const StepTimer::Times& times = timer.steps()[i];
    py::list children;
    for (const uint32_t slot : ChildrenOf(step)) {
      children.append(ToPython(instance->child(slot), plan->children[slot]->plan));
    }
    steps.append(py::make_tuple(step.op_index, step.kind == StepKind::kCopy, times.runs_ns,
                                times.n_calls, std::move(children)));
  }
  py::dict shapes;
  for (const uint32_t value : plan->dynamic_values) {
    const int64_t* dims = instance->dims(value);
    shapes[py::int_(value)] = ShapeTuple(Shape(dims, dims + plan->values[value].ndim));
  }
  py::list next;
  for (const auto& [following, timed] : timer.next()) {
    next.append(ToPython(timed.get(), following));
  }
  return py::make_tuple(PlanHandle{plan}, std::move(steps), std::move(shapes), std::move(next));
}

// Measures `run` until the plan's devices are idle; drops the result of the run.
template <typename Function>
int64_t MeasureRun(const Plan& plan, const Function& run) {
  const int64_t begin = SteadyNs();
  PyObject* result = run();
  if (result == nullptr) throw py::error_already_set();
  const auto held = py::reinterpret_steal<py::object>(result);
  for (const DeviceMemory& memory : plan.devices) {
    if (!memory.device->is_host()) memory.device->Synchronize();
  }
  return SteadyNs() - begin;
}

py::tuple TimeSteps(const PlanHandle& self, const py::sequence& feeds,
                    const std::shared_ptr<Scope>& scope, int64_t n, int64_t n_warmup,
                    bool fetch_device) {
  const Plan& plan = *self.plan;
  CheckRunnable(plan);
  if (n < 1 || n_warmup < 1) {
    Throw(ErrorKind::kProgram, "time_steps: n and n_warmup must be at least 1, got ", n, " and ",
          n_warmup);
  }
  std::vector<py::object> held;
  std::vector<PyObject*> arrays;
  for (const py::handle feed : feeds) held.push_back(py::reinterpret_borrow<py::object>(feed));
  if (held.size() != plan.feeds.size()) {
    Throw(ErrorKind::kFeed, "plan '", plan.name, "': must be given one array per feed, got ",
          held.size(), " for ", plan.feeds.size());
  }
  for (size_t i = 0; i < held.size(); ++i) {
    CheckFeed(plan, i, held[i].ptr());
    arrays.push_back(held[i].ptr());
  }
  const RunRequest request{self.plan,         scope,       arrays.data(), nullptr,
                           ResultForm::kList, fetch_device};
  const auto instance = BuildInstance(plan);
  instance->TimeSteps();
  std::vector<int64_t> as_is_ns;
  std::vector<int64_t> timed_ns;
  for (int64_t i = -n_warmup; i < n; ++i) {  // alternates for equal conditions
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    as_is_ns.push_back(MeasureRun(plan, [&] { return RunPlanOrRaise(request); }));
    timed_ns.push_back(
        MeasureRun(plan, [&] { return RunInstanceOrRaise(request, instance.get()); }));
    instance->timer()->EndRun();
    if (i != -1) continue;
    as_is_ns.clear();
    timed_ns.clear();
    instance->timer()->Clear();
  }
  return py::make_tuple(as_is_ns, timed_ns, ToPython(instance.get(), self.plan));
}

std::vector<std::string> FeedNames(const PlanHandle& self) {
  std::vector<std::string> names;
  for (const uint32_t feed : self.plan->feeds) names.push_back(self.plan->externals[feed].name);
  return names;
}

py::object Describe(const PlanHandle& self) {
  const py::handle held(static_cast<PyObject*>(self.plan->describe.get()));
  return held ? py::reinterpret_borrow<py::object>(held) : py::none();
}

}  // namespace

void BindTiming(py::class_<PlanHandle>* plan) {
  plan->def_property_readonly("feed_names", &FeedNames)
      .def_property_readonly("describe", &Describe)
      .def("time_steps", &TimeSteps, py::arg("feeds"), py::arg("scope"), py::arg("n"),
           py::arg("n_warmup"), py::arg("fetch_device") = false);
}

}  // namespace opwright
