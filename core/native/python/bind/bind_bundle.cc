// Bundle for Python: its plans run in compiled networks as those that were lowered do.
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "runtime/bundle/bundle.h"

namespace opwright {

namespace {

using CodedMeta = std::pair<std::vector<int64_t>, uint32_t>;

py::list Ports(const std::vector<Port>& ports) {
  py::list list;
  for (const Port& port : ports) {
    py::list dims;
    for (const Affine& dim : port.dims) dims.append(py::make_tuple(dim.step, dim.base));
    list.append(py::make_tuple(port.name, DtypeName(port.dtype), py::tuple(dims)));
  }
  return list;
}

PlanHandle PlanFor(Bundle& self, const std::vector<CodedMeta>& metas, int32_t n_threads) {
  const GilReleased released;  // the kernels of the first plan of a batch are made ready
  std::vector<DLTensor> tensors;
  for (const auto& [shape, code] : metas) {
    DLTensor tensor{};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = DtypeFromCode(code);
    tensor.shape = const_cast<int64_t*>(shape.data());
    tensors.push_back(tensor);
  }
  std::vector<const DLTensor*> inputs;
  for (const DLTensor& tensor : tensors) inputs.push_back(&tensor);
  return {self.PlanFor(self.BatchOf(inputs), n_threads)};
}

}  // namespace

void BindBundle(py::module_& module) {
  py::class_<Bundle, std::shared_ptr<Bundle>>(module, "Bundle", py::is_final(), "An open bundle.")
      .def(py::init([](const std::string& path, std::vector<std::string> folders, bool check) {
             const GilReleased released;
             return Bundle::Open(path, {std::move(folders), check});
           }),
           py::arg("path"), py::arg("folders") = std::vector<std::string>(),
           py::arg("check") = false)
      .def_property_readonly("inputs", [](const Bundle& self) { return Ports(self.inputs()); })
      .def_property_readonly("outputs", [](const Bundle& self) { return Ports(self.outputs()); })
      .def_property_readonly(
          "batch",
          [](const Bundle& self) { return py::make_tuple(self.least_batch(), self.most_batch()); })
      .def("new_scope", &Bundle::NewScope)
      .def("plan_for", &PlanFor, py::arg("metas"), py::arg("n_threads"));
}

}  // namespace opwright
