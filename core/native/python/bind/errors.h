// Raises runtime errors as classes of opwright.errors.
#ifndef OPWRIGHT_PYTHON_ERRORS_H_
#define OPWRIGHT_PYTHON_ERRORS_H_

#include "python/arrays/numpy_bridge.h"
#include "runtime/status.h"

namespace opwright {

// Sets Python's error for the C++ exception that is being handled; an error that is already set
// becomes its cause. Functions of the C API end with `catch (...) { return SetPythonError(); }`.
std::nullptr_t SetPythonError() noexcept;

// Sets an error of the given kind.
void RaiseKind(ErrorKind kind, const char* message) noexcept;

// Returns a plugin's text as a str; bytes that are not UTF-8 are replaced. On failure, returns null
// and sets an error.
PyObject* NewText(const char* text) noexcept;

// Returns Python's current error, normalized, and clears it; null if no error is set.
PyObject* TakeError() noexcept;

// Defines RefusedError and UnsupportedError, and registers our exceptions with pybind11.
void BindErrors(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_ERRORS_H_
