// Devices written in Python: a table `ow_device` that calls a Python object.
#ifndef OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
#define OPWRIGHT_PYTHON_PYTHON_DEVICE_H_

#include <memory>
#include <string>

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// `number` is the object's index among devices of its type, `source` is its provider, or None for
// the object itself, and `origin` is the package name. Throws if a member is missing.
std::shared_ptr<Device> MakePythonDevice(const py::object& object, int32_t number,
                                         const py::object& source, std::string origin);

// Returns the object of a device written in Python, borrowed, or null for other devices.
inline PyObject* PythonDeviceObject(const Device& device) {
  return device.needs_gil() ? static_cast<PyObject*>(device.state()) : nullptr;
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
