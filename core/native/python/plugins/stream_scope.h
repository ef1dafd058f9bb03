// Makes the stream of a plan the current stream of the array library that a device's Python kernels
// use.
#ifndef OPWRIGHT_PYTHON_STREAM_SCOPE_H_
#define OPWRIGHT_PYTHON_STREAM_SCOPE_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Returns a borrowed reference to the object that creates arrays and streams for Python kernels of
// a compiled device, or null if no object was given.
inline PyObject* DeviceArrays(const Device& device) {
  return static_cast<PyObject*>(device.arrays());
}

// Enters ``arrays.stream(pointer, number)`` for one Python call, and leaves it afterward.
class StreamScope {
 public:
  // On failure, returns false and sets an error.
  bool Enter(const Device& device, void* stream) noexcept;
  // Passes the current error to the context manager and leaves it set. If no error was set and the
  // exit fails, returns false and sets an error.
  bool Leave() noexcept;

 private:
  PyObject* manager_ = nullptr;  // owned, while entered
};

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_STREAM_SCOPE_H_
