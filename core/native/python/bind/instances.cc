// Handles failed allocations of instances of the module's classes, which pybind11 does not check.
#include <exception>
#include <new>
#include <unordered_map>
#include <utility>

#include "python/bind/handles.h"

namespace opwright {

namespace {

PyObject* Allocate(PyTypeObject* type, Py_ssize_t n) {
  PyObject* made = PyType_GenericAlloc(type, n);
  if (made != nullptr) return made;
  PyErr_Clear();
  throw std::bad_alloc();  // becomes MemoryError if C++ requested the instance
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* keywords) noexcept {
  try {
    return py::detail::pybind11_object_new(type, args, keywords);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

using InitFunction = void (*)(py::detail::instance*, const void*);

std::unordered_map<PyTypeObject*, InitFunction>& InitFunctions() {
  static auto& functions = *new std::unordered_map<PyTypeObject*, InitFunction>;
  return functions;
}

thread_local PyObject* constructed = nullptr;  // object of the innermost running constructor

// pybind11 registers an instance before it copies the shared_ptr that it wraps. Without memory for
// the registration, pybind11 would delete the object although the shared_ptr owns it. pybind11 does
// not catch exceptions after a constructor, so an exception would unwind the interpreter. Instead,
// an error is set, and `RunConstructor` checks for it.
void Init(py::detail::instance* self, const void* holder) {
  try {
    InitFunctions().at(Py_TYPE(self))(self, holder);
  } catch (...) {
    if (reinterpret_cast<PyObject*>(self) == constructed) {
      PyErr_NoMemory();
      return;
    }
    if (holder != nullptr) self->owned = false;
    throw;
  }
}

// The function behind `__init__`, which pybind11 shares among all classes with an `__init__`.
initproc& Constructor() {
  static initproc run = nullptr;
  return run;
}

// Replaces `tp_init`, because Python would raise a SystemError after an `__init__` that has set a
// MemoryError.
int RunConstructor(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* const outer = std::exchange(constructed, self);
  const int status = Constructor()(self, args, keywords);
  constructed = outer;
  if (status == 0 || PyErr_ExceptionMatches(PyExc_SystemError) == 0) return status;
  const py::error_already_set error;
  const auto cause = py::reinterpret_steal<py::object>(PyException_GetCause(error.value().ptr()));
  if (cause && PyErr_GivenExceptionMatches(cause.ptr(), PyExc_MemoryError) != 0) {
    PyErr_SetObject(PyExc_MemoryError, cause.ptr());
  } else {
    PyErr_SetObject(PyExc_SystemError, error.value().ptr());
  }
  return -1;
}

}  // namespace

void GuardInstances(const py::module_& module) {
  auto* base = reinterpret_cast<PyTypeObject*>(py::detail::get_internals().instance_base);
  for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(module.attr("__dict__"))) {
    if (!PyType_Check(value.ptr())) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (!PyType_IsSubtype(type, base)) continue;
    type->tp_alloc = Allocate;
    type->tp_new = New;
    PyType_Modified(type);
    py::detail::type_info* info = py::detail::get_type_info(type);
    InitFunctions()[type] = info->init_instance;
    info->init_instance = Init;
    if (PyDict_GetItemString(type->tp_dict, "__init__") != nullptr) {
      Constructor() = type->tp_init;
      type->tp_init = RunConstructor;
    }
  }
}

}  // namespace opwright
