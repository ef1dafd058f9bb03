// What a Python kernel gets in the place of a dynamic output.
#ifndef OPWRIGHT_PYTHON_RESIZER_H_
#define OPWRIGHT_PYTHON_RESIZER_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// A Resizer for argument `arg`; dead until it is given a call. NULL with an error set.
PyObject* NewResizer(uint32_t arg) noexcept;

// Provides a Resizer to life for one call, or ends its life (null).
void SetResizerCall(PyObject* resizer, const ow_call* call) noexcept;

// Adds the type to the module; throws.
void BindResizer(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_RESIZER_H_
