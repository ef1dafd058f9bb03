// The object that is passed to a Python kernel for a dynamic output.
#ifndef OPWRIGHT_PYTHON_RESIZER_H_
#define OPWRIGHT_PYTHON_RESIZER_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Returns a Resizer for argument `arg`; it is inactive until SetResizerCall. On failure, returns
// NULL and sets an error.
PyObject* NewResizer(uint32_t arg) noexcept;

// Activates a Resizer for one call, or deactivates it (null).
void SetResizerCall(PyObject* resizer, const ow_call* call) noexcept;

// Adds the type to the module; throws.
void BindResizer(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_RESIZER_H_
