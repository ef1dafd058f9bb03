// Bundle for Python; compiled networks run its plans like lowered plans.
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/arrays/numpy_bridge.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "runtime/bundle/bundle.h"

namespace opwright {

namespace {

py::list Ports(const std::vector<Port>& ports) {
  py::list list;
  for (const Port& port : ports) {
    py::list dims;
    for (const Affine& dim : port.dims) dims.append(py::make_tuple(dim.step, dim.base));
    list.append(py::make_tuple(port.name, DtypeName(port.dtype), py::tuple(dims)));
  }
  return list;
}

// Returns the plan for arrays, given in the order of the inputs.
PlanHandle PlanFor(Bundle& self, const py::tuple& arrays, int32_t n_threads) {
  std::vector<DLTensor> tensors;
  for (const py::handle value : arrays) {
    if (!PyArray_Check(value.ptr())) {
      Throw(ErrorKind::kFeed, "feed: a bundle must be fed arrays on the host, got a tensor");
    }
    PyArrayObject* array = AsArray(value.ptr());
    DLTensor tensor{};
    tensor.ndim = PyArray_NDIM(array);
    tensor.dtype = DtypeOf(PyArray_DESCR(array), "feed");
    tensor.shape = PyArray_DIMS(array);
    tensors.push_back(tensor);
  }
  std::vector<const DLTensor*> inputs;
  for (const DLTensor& tensor : tensors) inputs.push_back(&tensor);
  if (inputs.size() != self.inputs().size()) {
    Throw(ErrorKind::kFeed, self.who(), ": must be fed ", self.inputs().size(), " arrays, got ",
          inputs.size());
  }
  const GilReleased released;  // prepares the kernels of the first plan of a batch
  return {self.PlanFor(self.BatchOf(inputs), n_threads)};
}

// Returns the name and features of the processor, which determine the choice of kernels.
std::string DescribeProcessor() {
  std::string text;
#ifdef __x86_64__
  for (const uint32_t leaf : {1U, 7U, 0x80000002U, 0x80000003U, 0x80000004U}) {
    std::array<uint32_t, 4> registers{};
    __get_cpuid_count(leaf, 0, &registers[0], &registers[1], &registers[2], &registers[3]);
    if (leaf == 1) registers[1] = 0;  // contains the number of the core
    for (const uint32_t number : registers) text += Concat(number, " ");
  }
#endif
  return text;
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
      .def("plan_for", &PlanFor, py::arg("arrays"), py::arg("n_threads"));
  module.def("describe_processor", &DescribeProcessor, "Name and features of the processor.");
}

}  // namespace opwright
