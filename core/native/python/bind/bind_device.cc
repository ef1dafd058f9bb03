// Device and Tensor for Python.
#include "python/bind/handles.h"
#include "python/plugins/python_device.h"
#include "runtime/device/open_devices.h"
#include "runtime/status.h"

namespace opwright {

py::tuple ShapeTuple(const Shape& shape) {
  py::tuple tuple(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) tuple[i] = shape[i];
  return tuple;
}

namespace {

// Makes a property of the tensor.
template <typename Get>
auto OfTensor(Get get) {
  return [get](const TensorHandle& self) { return get(*self.tensor); };
}

py::object ToArray(const TensorHandle& self, const py::object& dtype, const py::object& copy) {
  if (!copy.is_none() && !copy.cast<bool>()) {
    throw py::value_error("Tensor.__array__: only a copy can be given, got copy=False");
  }
  const py::object array = TensorToNumpy(*self.tensor);
  return dtype.is_none() ? array : array.attr("astype")(dtype);
}

}  // namespace

void BindDevice(py::module_& module) {
  py::class_<Device, std::shared_ptr<Device>>(module, "Device", py::is_final(),
                                              "A device that holds tensors and runs kernels.")
      .def_property_readonly("name", &Device::name)
      .def("name_beside", &NameBeside, py::arg("other"))
      .def_property_readonly(
          "dlpack_code",
          [](const Device& self) { return static_cast<int>(self.table()->dlpack_code); })
      .def_property_readonly("addressable", &Device::addressable)
      .def_property_readonly("shares_memory", &Device::shares_memory)
      .def_property_readonly("has_arena", &Device::has_arena)
      .def_property_readonly("alignment", &Device::alignment)
      .def_property_readonly("is_host", &Device::is_host)
      .def("synchronize", [](Device& self) { self.Synchronize(); })
      .def("set_arrays",
           [](Device& self, const py::object& arrays) { self.set_arrays(HoldObject(arrays)); })
      .def_property_readonly("arrays",
                             [](const Device& self) -> py::object {
                               if (self.arrays() == nullptr) return py::none();
                               auto* arrays = static_cast<PyObject*>(self.arrays());
                               return py::reinterpret_borrow<py::object>(arrays);
                             })
      .def("holds", [](const std::shared_ptr<Device>& self,
                       const py::object& array) { return IsOnDevice(array, self); })
      .def("__repr__", [](const Device& self) { return "Device('" + self.name() + "')"; });
  module.def("host_device", [] { return HostDevice(); }, "Return the host device.");
  module.def(
      "find_python_device",
      [](const py::object& source, int32_t number) {
        FreeRetired();  // the device may still be queued for closing
        return FindOpenDevice(source.ptr(), number);
      },
      py::arg("source"), py::arg("number"), "Return the open device that an object provided.");
  module.def("make_python_device", &MakePythonDevice, py::arg("obj"), py::arg("number") = 0,
             py::arg("source") = py::none(), py::arg("origin") = "",
             "Wrap a device written in Python.");

  py::class_<TensorHandle>(module, "Tensor", py::is_final(),
                           py::custom_type_setup([](PyHeapTypeObject* type) {
                             type->ht_type.tp_getattro = GetTensorAttribute;
                           }),
                           "A typed array on a device.")
      .def_static(
          "from_numpy",
          [](const py::object& array, const std::shared_ptr<Device>& device) {
            return TensorHandle{
                TensorFromNumpy(array, device ? device : HostDevice(), "Tensor.from_numpy")};
          },
          py::arg("array"), py::arg("device") = py::none())
      .def_static(
          "from_array",
          [](const py::object& array, const std::shared_ptr<Device>& device, const char* who) {
            return TensorHandle{FromArray(array, device, who)};
          },
          py::arg("array"), py::arg("device").none(false), py::arg("who") = "Tensor.from_array")
      .def_property_readonly("shape", OfTensor([](const Tensor& t) { return ShapeTuple(t.shape); }))
      .def_property_readonly("dtype", OfTensor([](const Tensor& t) { return DtypeName(t.dtype); }))
      .def_property_readonly("device", OfTensor([](const Tensor& t) { return t.device()->name(); }))
      .def_property_readonly("opened_device", OfTensor([](const Tensor& t) { return t.device(); }))
      .def_property_readonly("data_ptr", OfTensor([](const Tensor& t) {
                               return reinterpret_cast<uintptr_t>(t.data());
                             }))
      .def("numpy", [](const TensorHandle& self) { return TensorToNumpy(*self.tensor); })
      .def("__array__", &ToArray, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def(
          "__dlpack__",
          [](const TensorHandle& self, const py::object& stream, const py::object& max_version,
             const py::object& dl_device, const py::object& copy) {
            return ToDlpack(self.tensor, stream, max_version, dl_device, copy);
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const TensorHandle& self) { return DlpackDevice(*self.tensor); })
      .def("__repr__", [](const TensorHandle& self) {
        return Concat("Tensor(", DtypeName(self.tensor->dtype), ShapeText(self.tensor->shape),
                      " on ", self.tensor->device()->name(), ")");
      });
}

}  // namespace opwright
