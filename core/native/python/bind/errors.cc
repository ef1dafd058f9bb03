#include "python/bind/errors.h"

#include <cstring>

#include "python/bind/handles.h"

namespace opwright {

namespace {

// Created once with the module and never freed.
PyObject* refused_error = nullptr;
PyObject* unsupported_error = nullptr;

const char* ClassName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kDtype:
      return "DtypeError";
    case ErrorKind::kFeed:
      return "FeedError";
    case ErrorKind::kFormat:
      return "FormatError";
    case ErrorKind::kOutOfMemory:
      return "OutOfMemoryError";
    case ErrorKind::kPlugin:
      return "PluginError";
    case ErrorKind::kProgram:
      return "ProgramError";
    case ErrorKind::kShape:
      return "ShapeError";
    case ErrorKind::kVariableNotFound:
      return "VariableNotFoundError";
    case ErrorKind::kKernel:
    case ErrorKind::kRefused:
    case ErrorKind::kUnsupported:
      break;
  }
  return "KernelError";
}

}  // namespace

PyObject* TakeError() noexcept {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) return nullptr;
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(traceback);
  Py_DECREF(type);
  return value;
}

PyObject* NewText(const char* text) noexcept {
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
}

void RaiseKind(ErrorKind kind, const char* message) noexcept {
  PyObject* cause = TakeError();
  PyObject* type = nullptr;
  if (kind == ErrorKind::kRefused || kind == ErrorKind::kUnsupported) {
    type = Py_NewRef(kind == ErrorKind::kRefused ? refused_error : unsupported_error);
  } else {
    PyObject* errors = PyImport_ImportModule("opwright.errors");
    if (errors != nullptr) type = PyObject_GetAttrString(errors, ClassName(kind));
    Py_XDECREF(errors);
  }
  PyObject* text = type == nullptr ? nullptr : NewText(message);
  if (text != nullptr) PyErr_SetObject(type, text);
  Py_XDECREF(text);
  Py_XDECREF(type);
  if (cause == nullptr) return;
  PyObject* error = TakeError();
  PyException_SetCause(error, cause);  // takes the reference
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

std::shared_ptr<void> HoldObject(const py::object& object) {
  if (object.is_none()) return nullptr;
  return {Py_NewRef(object.ptr()), [](PyObject* held) {
            if (!Py_IsInitialized()) return;  // the process is exiting
            const py::gil_scoped_acquire gil;
            const py::error_scope scope;
            Py_DECREF(held);
          }};
}

std::nullptr_t SetPythonError() noexcept {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const Error& error) {
    RaiseKind(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

void BindErrors(py::module_& module) {
  refused_error = PyErr_NewExceptionWithDoc(
      "opwright._runtime.RefusedError",
      "The prepare of a native kernel refused; the message is the reason.", nullptr, nullptr);
  if (refused_error == nullptr) throw py::error_already_set();
  module.add_object("RefusedError", py::reinterpret_borrow<py::object>(refused_error));
  unsupported_error = PyErr_NewExceptionWithDoc(
      "opwright._runtime.UnsupportedError",
      "The prepare of a native kernel refused; the message names what this machine lacks.",
      refused_error, nullptr);
  if (unsupported_error == nullptr) throw py::error_already_set();
  module.add_object("UnsupportedError", py::reinterpret_borrow<py::object>(unsupported_error));
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      RaiseKind(error.kind(), error.what());
    }
  });
}

}  // namespace opwright
