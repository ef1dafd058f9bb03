// Errors of the runtime as classes of opwright.errors.
#ifndef OPWRIGHT_PYTHON_ERRORS_H_
#define OPWRIGHT_PYTHON_ERRORS_H_

#include "python/arrays/numpy_bridge.h"
#include "runtime/status.h"

namespace opwright {

// Sets Python's error for the C++ exception being handled; an error set before becomes its cause.
// For functions of the C API, which end with `catch (...) { return SetPythonError(); }`.
std::nullptr_t SetPythonError() noexcept;

// Sets an error of this kind.
void RaiseKind(ErrorKind kind, const char* message) noexcept;

// A plugin's text, with bytes that are not UTF-8 replaced. Null with an error set.
PyObject* NewText(const char* text) noexcept;

// Fetches Python's current error, normalized, or null if there is none.
PyObject* TakeError() noexcept;

// Defines RefusedError, UnsupportedError, and lets pybind11 translate our exceptions.
void BindErrors(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_ERRORS_H_
