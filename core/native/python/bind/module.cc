// opwright._runtime: the C++ runtime for Python.
#include "python/arrays/host_arrays.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/call/eager_namespace.h"
#include "python/call/plan_table.h"
#include "python/plugins/resizer.h"
#include "runtime/plan/checked_steps.h"
#include "runtime/plan/plan.h"

PYBIND11_MODULE(_runtime, module) {
  namespace py = pybind11;
  using opwright::Role;
  using opwright::ValueKind;
  opwright::ImportNumpy();
  module.doc() =
      "The C++ runtime: tensors, scopes, kernels, plans and the callables that run them.";
  const auto add = [&module](const char* name, auto value) {
    module.attr(name) = static_cast<int>(value);
  };
  add("ARENA", ValueKind::kArena);
  add("EXTERNAL", ValueKind::kExternal);
  add("NONE", ValueKind::kNone);
  add("DYNAMIC", ValueKind::kDynamic);
  add("FEED", Role::kFeed);
  add("FETCH", Role::kFetch);
  add("PERSISTABLE", Role::kPersistable);
  add("CAPTURED", Role::kCaptured);
  add("ARG_PACKABLE", OW_ARG_PACKABLE);
  add("ARG_SHAPE_ONLY", OW_ARG_SHAPE_ONLY);
  add("ARG_DYNAMIC", OW_ARG_DYNAMIC);
  add("ARG_UNREAD", OW_ARG_UNREAD);
  add("CHECK_TENSORS", opwright::kCheckTensors);
  add("CHECK_ALL", opwright::kCheckAll);
  module.attr("ABI_VERSION") = py::make_tuple(OW_ABI_MAJOR, OW_ABI_MINOR);
  opwright::BindErrors(module);
  opwright::BindInterpreterEnd(module);
  opwright::BindDevice(module);
  opwright::BindScope(module);
  opwright::BindLibrary(module);  // before what takes one
  opwright::BindPrepared(module);
  opwright::BindResizer(module);
  opwright::BindPlan(module);
  opwright::BindPlanTable(module);
  opwright::BindCompiledNetwork(module);
  opwright::BindHostArrays(module);
  opwright::BindEagerOperator(module);
  opwright::BindEagerFunction(module);
  opwright::BindEagerNamespace(module);
  opwright::BindReadMessage(module);
  opwright::GuardInstances(module);
}
