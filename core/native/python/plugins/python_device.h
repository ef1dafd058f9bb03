// Devices written in Python: a table `ow_device` that calls a Python object.
#ifndef OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
#define OPWRIGHT_PYTHON_PYTHON_DEVICE_H_

#include <memory>
#include <string>

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// `number` is the object's number among devices of its type, `source` its provider, None for
// itself, and `origin` names the package. Throws if a member is missing.
std::shared_ptr<Device> MakePythonDevice(const py::object& object, int32_t number,
                                         const py::object& source, std::string origin);

// The object of such a device, borrowed; null for other devices.
inline PyObject* PythonDeviceObject(const Device& device) {
  return device.needs_gil() ? static_cast<PyObject*>(device.state()) : nullptr;
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
