// opwright._runtime: the C++ runtime for Python.
#include <exception>
#include <functional>
#include <thread>

#include "python/arrays/host_arrays.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/call/eager_namespace.h"
#include "python/call/plan_table.h"
#include "python/plugins/resizer.h"
#include "runtime/plan/checked_steps.h"
#include "runtime/plan/plan.h"

namespace {

namespace py = pybind11;

// Runs work in a separate thread. Python calls signal handlers only in the main thread, so no
// handler can raise in the middle of registrations, which cannot be repeated.
void RunWithoutSignals(const std::function<void()>& work) {
  std::exception_ptr failure;
  {
    const py::gil_scoped_release released;
    std::thread([&work, &failure] {
      const py::gil_scoped_acquire gil;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
  }
  if (failure) std::rethrow_exception(failure);
}

void Register(py::module_& module) {
  using opwright::Role;
  using opwright::ValueKind;
  if (!opwright::ImportNumpy()) throw py::error_already_set();
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
  add("ITEM_ALIGNED", opwright::kItemAligned);
  add("CHECK_ALL", opwright::kCheckAll);
  module.attr("ABI_VERSION") = py::make_tuple(OW_ABI_MAJOR, OW_ABI_MINOR);
  opwright::BindErrors(module);
  opwright::BindInterpreterEnd(module);
  opwright::BindDevice(module);
  opwright::BindScope(module);
  opwright::BindLibrary(module);  // must precede functions with a Library argument
  opwright::BindPrepared(module);
  opwright::BindResizer(module);
  opwright::BindPlan(module);
  opwright::BindBundle(module);
  opwright::BindPlanTable(module);
  opwright::BindCompiledNetwork(module);
  opwright::BindHostArrays(module);
  opwright::BindEagerOperator(module);
  opwright::BindEagerFunction(module);
  opwright::BindWatch(module);
  opwright::BindEagerNamespace(module);
  opwright::BindReadMessage(module);
  opwright::GuardInstances(module);
}

}  // namespace

PYBIND11_MODULE(_registered, module) {
  RunWithoutSignals([&module] { Register(module); });
}

// Python calls this to import the module. pybind11 acquires the GIL of the main interpreter before
// it runs any code of the module; a subinterpreter would wait for this GIL forever.
extern "C" PYBIND11_EXPORT PyObject* PyInit__runtime() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit__registered();
  PyErr_SetString(PyExc_ImportError,
                  "opwright: must be used in the main interpreter of a process, got a "
                  "subinterpreter; use a process instead (mod_wsgi: WSGIApplicationGroup "
                  "%{GLOBAL})");
  return nullptr;
}
