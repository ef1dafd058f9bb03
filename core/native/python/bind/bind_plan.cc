// PlanBuilder and Plan for Python.
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bind/builder_calls.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/call/direct_run.h"
#include "python/call/intake.h"
#include "python/call/run_frame.h"
#include "runtime/plan/plan_builder.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Array elements of a loop: the plan's value for the array or -1, the body's external, the offset.
using ElementList = std::vector<std::tuple<int64_t, uint32_t, uint64_t>>;

using ChildArgument = std::pair<PlanHandle, Bindings>;

std::pair<std::shared_ptr<const Plan>, Bindings> ToChild(ChildArgument argument) {
  return {std::move(argument.first.plan), std::move(argument.second)};
}

template <typename Enum>
Enum CheckedEnum(int number, int count, const char* what) {
  if (number < 0 || number >= count) {
    Throw(ErrorKind::kProgram, "plan: ", what, " must be in [0, ", count, "), got ", number);
  }
  return static_cast<Enum>(number);
}

void AddLoop(PlanBuilder& self, const PlanHandle& body, int64_t condition,
             const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& carried,
             Bindings bindings, int64_t max_iterations, int32_t op_index, int64_t initial,
             const ElementList& sequences, const ElementList& stacks, int64_t turns,
             int64_t turns_taken, bool reverse) {
  LoopRequest request;
  request.body = body.plan;
  request.condition = condition;
  for (const auto& [value, external, next] : carried) {
    request.carried.push_back({value, external, next});
  }
  request.bindings = std::move(bindings);
  request.max_iterations = max_iterations;
  request.op_index = op_index;
  request.initial = initial;
  for (const auto& [value, external, offset] : sequences) {
    request.sequences.push_back({value, external, offset});
  }
  for (const auto& [value, external, offset] : stacks) {
    request.stacks.push_back({value, external, offset});
  }
  request.turns = turns;
  request.turns_taken = turns_taken;
  request.reverse = reverse;
  self.AddLoop(std::move(request));
}

void AddContinuation(PlanBuilder& self, std::vector<uint32_t> values, const py::object& resolve,
                     std::vector<std::pair<uint32_t, std::string>> bindings) {
  const std::shared_ptr<void> held = HoldObject(resolve);
  const auto ask = [held](const std::vector<Shape>& shapes) -> std::shared_ptr<const Plan> {
    const py::gil_scoped_acquire gil;
    try {
      py::tuple argument(shapes.size());
      for (size_t i = 0; i < shapes.size(); ++i) {
        argument[i] = ShapeTuple(shapes[i]);
      }
      const py::object answer = py::handle(static_cast<PyObject*>(held.get()))(argument);
      return answer.cast<PlanHandle&>().plan;
    } catch (py::error_already_set& error) {
      error.restore();  // the failed step reads it
      return nullptr;
    }
  };
  self.AddContinuation(std::move(values), ask, std::move(bindings));
}

py::object RunPlanAlone(const PlanHandle& self, const std::shared_ptr<Scope>& scope) {
  CheckRunnable(*self.plan);
  if (!self.plan->feeds.empty()) {
    Throw(ErrorKind::kFeed, "plan '", self.plan->name, "': run takes plans without feeds, got ",
          self.plan->feeds.size(), "; call it through a compiled network");
  }
  PyObject* result = RunPlanOrRaise({self.plan, scope});
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

}  // namespace

void BindPlan(py::module_& module) {
  py::class_<PlanHandle> plan(module, "Plan", py::is_final(), "Immutable steps and memory layout.");
  const auto add = [&plan](const char* name, auto get) {
    plan.def_property_readonly(name, [get](const PlanHandle& self) { return get(*self.plan); });
  };
  add("name", [](const Plan& self) { return self.name; });
  add("n_steps", [](const Plan& self) { return self.steps.size(); });
  add("python_steps", [](const Plan& self) { return self.n_python_steps; });
  add("arena_bytes", [](const Plan& self) { return self.whole_bytes(); });
  add("instances", [](const Plan& self) { return self.n_instances(); });
  add("held_bytes", [](const Plan& self) { return self.held_bytes; });
  add("graphs", [](const Plan& self) { return self.n_graphs(); });
  add("capture_refusal", [](const Plan& self) {
    std::string reason;
    {
      const GilReleased released;  // a run may hold the plan's lock
      reason = self.capture_refusal();
    }
    PyObject* text = NewText(reason.c_str());
    if (text == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(text);
  });
  plan.def("run", &RunPlanAlone, py::arg("scope") = py::none());
  plan.def("direct_entry", [](const PlanHandle& self) {
    CheckDirect(*self.plan);
    return std::pair{reinterpret_cast<uintptr_t>(&RunDirect),
                     reinterpret_cast<uintptr_t>(self.plan.get())};
  });
  BindTiming(&plan);

  py::class_<PlanBuilder> builder(module, "PlanBuilder", py::is_final(),
                                  "Collects the values and steps of one plan.");
  AddBuilderCalls(builder);
  builder
      .def(py::init<std::shared_ptr<Device>, std::string, uint32_t>(),
           py::arg("device").none(false), py::arg("name"), py::kw_only(), py::arg("checks") = 0)
      .def_property("arena_bytes", &PlanBuilder::arena_bytes,
                    [](PlanBuilder& self, uint64_t bytes) { self.SetArena(bytes, nullptr); })
      .def("arena", &PlanBuilder::SetArena, py::arg("size_bytes"), py::arg("device") = py::none())
      .def("buffers", &PlanBuilder::SetBuffers, py::arg("sizes"), py::arg("device") = py::none())
      .def(
          "external",
          [](PlanBuilder& self, int role, const std::string& name, bool create) {
            return self.AddExternal(CheckedEnum<Role>(role, 4, "a role"), name, create);
          },
          py::arg("role"), py::arg("name"), py::kw_only(), py::arg("create") = false)
      .def("copy", &PlanBuilder::AddCopy, py::arg("src"), py::arg("dst"), py::arg("op_index") = -1)
      .def("end_constants", &PlanBuilder::EndConstants)
      .def("feeds_read", &PlanBuilder::AddFeedsRead)
      .def("sync", &PlanBuilder::AddSync, py::arg("device") = py::none())
      .def(
          "call",
          [](PlanBuilder& self, const PlanHandle& callee, Bindings bindings, int32_t op_index) {
            self.AddCall(callee.plan, std::move(bindings), op_index);
          },
          py::arg("plan"), py::arg("bindings"), py::arg("op_index") = -1)
      .def(
          "branch",
          [](PlanBuilder& self, uint32_t condition,
             std::pair<ChildArgument, ChildArgument> branches, int32_t op_index) {
            self.AddBranch(condition, ToChild(std::move(branches.first)),
                           ToChild(std::move(branches.second)), op_index);
          },
          py::arg("condition"), py::arg("branches"), py::arg("op_index") = -1)
      .def("loop", &AddLoop, py::arg("body"), py::arg("condition"), py::arg("carried"),
           py::arg("bindings"), py::arg("max_iterations") = -1, py::arg("op_index") = -1,
           py::arg("initial") = -1, py::kw_only(), py::arg("sequences") = ElementList(),
           py::arg("stacks") = ElementList(), py::arg("turns") = -1, py::arg("turns_taken") = -1,
           py::arg("reverse") = false)
      .def("continuation", &AddContinuation, py::arg("dynamic_values"), py::arg("resolve"),
           py::arg("bindings"))
      .def("writes", &PlanBuilder::SetWrites, py::arg("names"))
      .def("fetch", &PlanBuilder::AddFetch, py::arg("value"))
      .def(
          "build",
          [](PlanBuilder& self, const py::object& describe, int64_t kernel_bytes) {
            return PlanHandle{self.Build(HoldObject(describe), kernel_bytes)};
          },
          py::arg("describe"), py::arg("kernel_bytes") = 0);
}

}  // namespace opwright
