// Arrays that describe their memory by an attribute, whose name the device's `arrays` define.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/plugins/stream_scope.h"
#include "runtime/device/event.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// The result of DeviceArrays.locate: pointer, shape, dtype, device number and stream.
using Place = std::tuple<uintptr_t, Shape, std::string, std::optional<int32_t>, uintptr_t>;

// Returns the name of the attribute, or null if the device has none.
py::object FindInterface(const Device& device) {
  PyObject* arrays = DeviceArrays(device);
  if (arrays == nullptr) return {};
  py::object name = py::getattr(arrays, "interface", py::none());
  return name.is_none() ? py::object() : name;
}

py::object Locate(const py::handle& array, const Device& device, const char* who) {
  const py::handle arrays = DeviceArrays(device);
  try {
    return arrays.attr("locate")(array.attr(FindInterface(device)));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    Throw(ErrorKind::kFeed, who, ": ", py::str(error.value()).cast<std::string>());
  }
}

Place ReadPlace(const py::object& located) {
  try {
    return located.cast<Place>();
  } catch (const py::cast_error&) {
    Throw(ErrorKind::kPlugin, "arrays: locate must return an opwright.device.ArrayPlace, got ",
          py::repr(located).cast<std::string>());
  }
}

// Waits for the device; returns a tensor's description, or null if its attribute is not `name`.
py::object FindDescription(const Tensor& tensor, const py::handle& name) {
  Device& device = *tensor.device();
  const py::object interface = FindInterface(device);
  if (!interface || !interface.equal(name)) return {};
  py::tuple shape(tensor.shape.size());
  for (size_t i = 0; i < tensor.shape.size(); ++i) shape[i] = tensor.shape[i];
  py::object description =
      py::handle(DeviceArrays(device))
          .attr("describe")(reinterpret_cast<uintptr_t>(tensor.data()), shape,
                            DtypeName(tensor.dtype), device.dl_device().device_id);
  const GilReleased released;
  device.Synchronize();
  return description;
}

}  // namespace

bool HasInterface(const py::handle& array, const Device& device) {
  if (py::hasattr(array, "__dlpack__")) return false;
  const py::object interface = FindInterface(device);
  return interface && py::hasattr(array, interface);
}

std::shared_ptr<const Tensor> FromInterface(const py::handle& array,
                                            const std::shared_ptr<Device>& device,
                                            const char* who) {
  auto [pointer, shape, dtype, number, stream] = ReadPlace(Locate(array, *device, who));
  if (number && *number != device->dl_device().device_id) {
    Throw(ErrorKind::kFeed, who, ": must be on ", device->name(), ", got ",
          Py_TYPE(array.ptr())->tp_name, " on number ", *number, "; copy it there");
  }
  if (stream != 0) Event(device).OrderBehind(reinterpret_cast<void*>(stream));
  return Borrow(device, DtypeFromName(dtype), std::move(shape), reinterpret_cast<void*>(pointer),
                HoldObject(py::reinterpret_borrow<py::object>(array)), who);
}

PyObject* GetTensorAttribute(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  try {
    py::error_already_set missing;
    const Tensor& tensor = *py::handle(self).cast<TensorHandle&>().tensor;
    const py::object description = FindDescription(tensor, name);
    if (description) return description.inc_ref().ptr();
    missing.restore();
    return nullptr;
  } catch (...) {
    return SetPythonError();
  }
}

}  // namespace opwright
