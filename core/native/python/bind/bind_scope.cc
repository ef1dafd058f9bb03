// Scope and ScopeVariable for Python.
#include <pybind11/stl.h>

#include <optional>

#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/call/intake.h"
#include "runtime/status.h"
#include "runtime/values/scope.h"

namespace opwright {

namespace {

std::shared_ptr<const Tensor> GetTensor(const ScopeVariable& variable) {
  auto tensor = variable.tensor();
  if (!tensor) {
    Throw(ErrorKind::kVariableNotFound, variable.name(),
          ": the variable must be set before it is read, got an empty one; call set first");
  }
  return tensor;
}

// Whether a new value overwrites the old value's memory instead of replacing it.
bool IsSetInPlace(const std::shared_ptr<const Tensor>& current,
                  const std::shared_ptr<Device>& device, DLDataType dtype, const Shape& shape) {
  return current && !current->storage->is_read_only() && current->device() == device &&
         current->HasMeta(dtype, shape.data(), static_cast<int32_t>(shape.size()));
}

// Copies an array into the variable on the array's device, in place if dtype and shape fit.
void SetWithin(ScopeVariable* self, const Tensor& source) {
  const std::shared_ptr<Device>& device = source.device();
  const std::shared_ptr<const Tensor> current = self->tensor();
  const bool fits = IsSetInPlace(current, device, source.dtype, source.shape);
  const auto target = fits ? current : MakeTensor(device, source.dtype, source.shape, self->name());
  device->CopyWithin(target->data(), source.data(), source.bytes());
  if (source.storage->is_foreign()) {
    const GilReleased released;
    device->Synchronize();  // after this, its owner may change the memory
  }
  if (fits) {
    self->Touch();
  } else {
    self->Replace(target);
  }
}

// A value on the host that is ready to be set without allocating more memory.
struct PendingValue {
  std::shared_ptr<ScopeVariable> variable;
  py::object array;                      // null if the tensor already has the value
  std::shared_ptr<const Tensor> tensor;  // the variable's tensor if it is written in place
};

PendingValue PrepareValue(const std::shared_ptr<ScopeVariable>& self, const py::object& array_like,
                          const std::shared_ptr<Device>& device) {
  py::object ready = ReadyArray(array_like, device, self->name().c_str());
  PyArrayObject* array = AsArray(ready.ptr());
  const DLDataType dtype = DtypeOf(PyArray_DESCR(array), self->name().c_str());
  const npy_intp* dims = PyArray_DIMS(array);
  const std::shared_ptr<const Tensor> current = self->tensor();
  if (IsSetInPlace(current, device, dtype, Shape(dims, dims + PyArray_NDIM(array)))) {
    return {self, std::move(ready), current};
  }
  return {self, {}, TensorFromNumpy(ready, device, self->name().c_str())};
}

void SetValue(const PendingValue& value) {
  if (!value.array) {
    value.variable->Replace(value.tensor);
    return;
  }
  const Tensor& tensor = *value.tensor;
  tensor.device()->CopyFromHost(tensor.data(), PyArray_DATA(AsArray(value.array.ptr())),
                                tensor.bytes());
  value.variable->Touch();
}

std::shared_ptr<Device> DeviceOf(const ScopeVariable& variable) {
  const std::shared_ptr<const Tensor> current = variable.tensor();
  return current ? current->device() : HostDevice();
}

// Writes in place if the meta allows it, so plans that are bound to the tensor stay bound.
void Set(const std::shared_ptr<ScopeVariable>& self, const py::object& array_like,
         std::shared_ptr<Device> device) {
  if (!device) device = DeviceOf(*self);
  if (IsOnDevice(array_like, device)) {
    SetWithin(self.get(), *FromArray(array_like, device, self->name().c_str()));
    return;
  }
  SetValue(PrepareValue(self, array_like, device));
}

// Shares the memory of an array instead of copying, so writes to the variable change the
// array.
void BorrowArray(ScopeVariable* self, const py::object& object) {
  const py::object borrowed = BorrowMemory(object.ptr(), nullptr, self->name());
  PyArrayObject* array = AsArray(borrowed.ptr());
  if (!IsReady(borrowed.ptr())) {
    Throw(ErrorKind::kFeed, self->name(),
          ": borrow requires a contiguous, aligned array of native byte order, got "
          "another ",
          Py_TYPE(object.ptr())->tp_name, "; pass it to set, which copies");
  }
  const DLDataType dtype = DtypeOf(PyArray_DESCR(array), self->name().c_str());
  const npy_intp* dims = PyArray_DIMS(array);
  self->Replace(Borrow(HostDevice(), dtype, Shape(dims, dims + PyArray_NDIM(array)),
                       PyArray_DATA(array), HoldObject(borrowed), self->name().c_str(),
                       PyArray_ISWRITEABLE(array) == 0));
}

void SetAll(Scope* self, const py::object& arrays) {
  const py::list items(arrays.attr("items")());
  std::vector<PendingValue> values;
  values.reserve(items.size());
  for (const py::handle& item : items) {
    const auto& [name, array] = item.cast<std::pair<std::string, py::object>>();
    const std::shared_ptr<ScopeVariable> variable = self->Var(name);
    values.push_back(PrepareValue(variable, array, DeviceOf(*variable)));
  }
  for (const PendingValue& value : values) SetValue(value);
}

// Makes a property of a variable's tensor; it is None for an unset variable.
template <typename Get>
auto IfSet(Get get) {
  return [get](const ScopeVariable& self) {
    const auto tensor = self.tensor();
    return tensor ? std::optional(get(*tensor)) : std::nullopt;
  };
}

void BindScopeVariable(py::module_& module) {
  py::class_<ScopeVariable, std::shared_ptr<ScopeVariable>>(module, "ScopeVariable", py::is_final(),
                                                            "A named variable of a scope.")
      .def_property_readonly("name", &ScopeVariable::name)
      .def_property_readonly("is_set",
                             [](const ScopeVariable& self) { return self.tensor() != nullptr; })
      .def_property_readonly("shape", IfSet([](const Tensor& t) { return ShapeTuple(t.shape); }))
      .def_property_readonly("dtype", IfSet([](const Tensor& t) { return DtypeName(t.dtype); }))
      .def_property_readonly("device", IfSet([](const Tensor& t) { return t.device()->name(); }))
      .def_property_readonly("opened_device", IfSet([](const Tensor& t) { return t.device(); }))
      .def_property_readonly("version", &ScopeVariable::version)
      .def("set", &Set, py::arg("array"), py::arg("device") = py::none())
      .def("borrow", &BorrowArray, py::arg("array"))
      .def("touch", &ScopeVariable::Touch)
      .def("numpy", [](const ScopeVariable& self) { return TensorToNumpy(*GetTensor(self)); })
      .def("tensor", [](const ScopeVariable& self) { return TensorHandle{GetTensor(self)}; })
      .def(
          "__array__",
          [](const ScopeVariable& self, const py::object& dtype, const py::object& copy) {
            return py::cast(TensorHandle{GetTensor(self)}).attr("__array__")(dtype, copy);
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def(
          "__dlpack__",
          [](const ScopeVariable& self, const py::object& stream, const py::object& max_version,
             const py::object& dl_device, const py::object& copy) {
            return ToDlpack(GetTensor(self), stream, max_version, dl_device, copy);
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__",
           [](const ScopeVariable& self) { return DlpackDevice(*GetTensor(self)); })
      .def("__repr__", [](const ScopeVariable& self) {
        const auto tensor = self.tensor();
        if (!tensor) return "ScopeVariable('" + self.name() + "', empty)";
        return Concat("ScopeVariable('", self.name(), "', ", DtypeName(tensor->dtype),
                      ShapeText(tensor->shape), " on ", tensor->device()->name(), ")");
      });
}

}  // namespace

void BindScope(py::module_& module) {
  BindScopeVariable(module);
  py::class_<Scope, std::shared_ptr<Scope>>(module, "Scope", py::is_final(),
                                            "Variables by name, with a parent scope.")
      .def(py::init<std::shared_ptr<Scope>>(), py::arg("parent") = py::none())
      .def_property_readonly("parent", &Scope::parent)
      .def_property_readonly("structure_version", &Scope::structure_version)
      .def("var", &Scope::Var, py::arg("name"))
      .def("find_var", &Scope::FindVar, py::arg("name"))
      .def("set_all", &SetAll, py::arg("arrays"))
      .def("new_scope",
           [](const std::shared_ptr<Scope>& self) { return std::make_shared<Scope>(self); })
      .def("names", &Scope::Names)
      .def(
          "erase",
          [](Scope& self, const std::string& name) {
            if (self.Erase(name)) return;
            Throw(ErrorKind::kVariableNotFound, name,
                  ": erase must name a variable of this scope itself, got an unknown name");
          },
          py::arg("name"));
}

}  // namespace opwright
