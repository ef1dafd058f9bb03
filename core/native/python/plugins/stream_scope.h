// The stream of a plan as the current one of the library whose arrays a device's kernels get.
#ifndef OPWRIGHT_PYTHON_STREAM_SCOPE_H_
#define OPWRIGHT_PYTHON_STREAM_SCOPE_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// The object that creates arrays and streams for Python kernels of a compiled device, borrowed;
// null if none was given.
inline PyObject* DeviceArrays(const Device& device) {
  return static_cast<PyObject*>(device.arrays());
}

// Enters ``arrays.stream(pointer, number)`` for one call of Python, and leaves it.
class StreamScope {
 public:
  // False with an error set.
  bool Enter(const Device& device, void* stream) noexcept;
  // Passes the current error to the context manager, and leaves it set. False with an error set if
  // there was none and the exit failed.
  bool Leave() noexcept;

 private:
  PyObject* manager_ = nullptr;  // owned, while entered
};

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_STREAM_SCOPE_H_
