#include "python/call/failures.h"

#include <string>

#include "python/bind/errors.h"
#include "runtime/bundle/session.h"

namespace opwright {

namespace {

// Sets the error that a method of `describe` returns for a failed operator.
void RaiseDescribed(PyObject* describe, const char* method, int32_t op_index, ErrorKind kind,
                    const char* said) {
  PyObject* cause = TakeError();
  if (cause != nullptr && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)) {
    // Ctrl-C and exits are not failures of the kernel.
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause)), cause);
    Py_DECREF(cause);
    return;
  }
  if (cause == nullptr && kind == ErrorKind::kOutOfMemory) {
    cause = PyObject_CallFunction(PyExc_MemoryError, "s", said);
    if (cause == nullptr) return;  // memory is insufficient; this error is now set
  }
  const std::string message = cause == nullptr ? said : TextOfError(cause);
  if (describe == nullptr) {
    RaiseKind(kind, message.c_str());
    if (cause != nullptr) {
      PyObject* error = TakeError();
      PyException_SetCause(error, cause);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
      Py_DECREF(error);
    }
    return;
  }
  PyObject* error = PyObject_CallMethod(describe, method, "iNO", op_index, NewText(message.c_str()),
                                        cause == nullptr ? Py_None : cause);
  if (error != nullptr && PyExceptionInstance_Check(error)) {
    if (cause != nullptr && error != cause) PyException_SetCause(error, Py_NewRef(cause));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  } else if (error != nullptr) {
    PyErr_Format(PyExc_TypeError, "describe.%s must return an exception, got %R", method, error);
  }
  Py_XDECREF(error);
  Py_XDECREF(cause);
}

}  // namespace

std::string TextOfError(PyObject* error) {
  PyObject* text = PyObject_Str(error);
  const char* chars = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  std::string result = chars == nullptr ? Py_TYPE(error)->tp_name : chars;
  Py_XDECREF(text);
  PyErr_Clear();
  return result;
}

void RaiseBindFailure(const BindError& error) {
  auto* describe = static_cast<PyObject*>(error.describe.get());
  const char* said = describe == nullptr ? error.what() : error.reason.c_str();
  RaiseDescribed(describe, "fail_bind", error.op_index, error.kind(), said);
}

void RaiseFailure(const RunState& state) {
  if (state.bind_error != nullptr) {
    RaiseBindFailure(*state.bind_error);
    return;
  }
  auto* describe = static_cast<PyObject*>(state.failed_plan->describe.get());
  const bool lacks_memory = state.status == OW_OUT_OF_MEMORY;
  const std::string text = describe == nullptr                     ? DescribeFailure(state)
                           : lacks_memory && state.message.empty() ? "out of memory"
                                                                   : state.message;
  RaiseDescribed(describe, "fail", state.failed_op,
                 lacks_memory ? ErrorKind::kOutOfMemory : ErrorKind::kKernel, text.c_str());
}

}  // namespace opwright
