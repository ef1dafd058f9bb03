// prepare_python and prepare_native.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/plugins/native_args.h"
#include "python/plugins/python_kernel.h"
#include "runtime/library/host.h"
#include "runtime/library/library.h"
#include "runtime/plan/prepared.h"

namespace opwright {

namespace {

std::shared_ptr<Prepared> PrepareFromAddress(uintptr_t kernel_address, const py::object& attrs,
                                             const py::object& inputs, const py::object& outputs,
                                             int32_t n_threads,
                                             const std::optional<std::vector<uint32_t>>& arg_flags,
                                             const std::shared_ptr<Device>& device,
                                             const py::object& keep_alive, bool deterministic) {
  const AttrStore store(attrs);
  PrepareRequest request;
  request.inputs = ToMetas(inputs);
  request.outputs = ToMetas(outputs);
  request.attrs = store.attrs();
  if (arg_flags) request.arg_flags = *arg_flags;
  request.n_threads = n_threads;
  request.is_deterministic = deterministic;
  request.device = device ? device : HostDevice();
  const auto* kernel = reinterpret_cast<const ow_kernel*>(kernel_address);
  // Holds the library itself rather than its Python object, so releasing it does not need the
  // GIL.
  auto held = py::isinstance<Library>(keep_alive)
                  ? std::shared_ptr<void>(keep_alive.cast<std::shared_ptr<Library>>())
                  : HoldObject(keep_alive);
  const GilReleased released;  // a plugin's prepare may be slow
  return PrepareNative(kernel, request, std::move(held));
}

std::shared_ptr<Prepared> PreparePython(
    const py::object& function, std::vector<uint32_t> positional,
    const std::vector<std::pair<std::string, uint32_t>>& keywords,
    const std::optional<py::dict>& constants, const py::object& duplicable, bool bind,
    const std::optional<std::map<uint32_t, py::object>>& packs, int32_t n_threads, bool capturable,
    const std::string& op_type) {
  auto kernel = std::make_unique<PythonKernel>();
  kernel->function = function;
  kernel->positional = std::move(positional);
  py::list names;
  const auto add_name = [&names](const py::object& name) {
    PyObject* interned = py::str(name).release().ptr();
    PyUnicode_InternInPlace(&interned);
    names.append(py::reinterpret_steal<py::object>(interned));
  };
  for (const auto& [name, slot] : keywords) {
    add_name(py::str(name));
    kernel->keywords.push_back(slot);
  }
  if (constants) {
    for (const auto& [name, value] : *constants) {
      add_name(py::reinterpret_borrow<py::object>(name));
      kernel->constants.push_back(py::reinterpret_borrow<py::object>(value));
    }
  }
  kernel->names = py::tuple(names);
  for (const py::handle slot : duplicable) kernel->duplicable.push_back(slot.cast<uint32_t>());
  if (packs) kernel->packs.assign(packs->begin(), packs->end());
  kernel->bind = bind;
  auto prepared = MakePythonPrepared(std::move(kernel));
  prepared->n_threads = n_threads;
  prepared->capturable = capturable;
  if (!op_type.empty()) prepared->op_type = op_type;
  return prepared;
}

}  // namespace

void BindPrepared(py::module_& module) {
  py::class_<Prepared, std::shared_ptr<Prepared>>(module, "Prepared", py::is_final(),
                                                  "A prepared kernel.")
      .def_readonly("workspace_bytes", &Prepared::workspace_bytes)
      .def_readonly("estimate_ns", &Prepared::estimate_ns)
      .def_readonly("held_bytes", &Prepared::held_bytes)
      .def_readonly("n_threads", &Prepared::n_threads)
      .def_property_readonly("needs_gil", &Prepared::needs_gil)
      .def_readonly("capturable", &Prepared::capturable)
      .def_property_readonly("packs", [](const Prepared& self) {
        py::tuple args(self.packs.size());
        for (size_t i = 0; i < self.packs.size(); ++i) args[i] = self.packs[i].arg;
        return args;
      });
  module.def("prepare_python", &PreparePython, py::arg("function"), py::arg("positional"),
             py::arg("keywords") = py::tuple(), py::arg("constants") = py::none(), py::kw_only(),
             py::arg("duplicable") = py::tuple(), py::arg("bind") = false,
             py::arg("packs") = py::none(), py::arg("n_threads") = 1, py::arg("capturable") = false,
             py::arg("op_type") = "", "Prepare a Python kernel.");
  module.def("prepare_native", &PrepareFromAddress, py::arg("kernel_address"), py::arg("attrs"),
             py::arg("inputs"), py::arg("outputs"), py::arg("n_threads") = 1, py::kw_only(),
             py::arg("arg_flags") = py::none(), py::arg("device") = py::none(),
             py::arg("keep_alive") = py::none(), py::arg("deterministic") = false,
             "Call prepare of the ow_kernel at this address.");
  module.def("limit_threads", &LimitThreads, py::arg("n_threads"),
             "Limit the number of threads of kernel jobs.");
  module.def("use_openmp", &UseOpenMp, py::arg("library"),
             "Run jobs of the calling thread on the OpenMP threads of a loaded library.");
}

}  // namespace opwright
