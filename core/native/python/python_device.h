// Devices written in Python: an object behind the table `ow_device`.
#ifndef OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
#define OPWRIGHT_PYTHON_PYTHON_DEVICE_H_

#include <memory>

#include "python/numpy_bridge.h"

namespace opwright {

// Throws when the object lacks something.
std::shared_ptr<Device> MakePythonDevice(const py::object& object);

// The object behind such a device, borrowed; null for other devices.
inline PyObject* PythonDeviceObject(const Device& device) {
  return device.needs_gil() ? static_cast<PyObject*>(device.state()) : nullptr;
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_PYTHON_DEVICE_H_
