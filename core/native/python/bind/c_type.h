// Helpers for types that are defined through the C API.
#ifndef OPWRIGHT_PYTHON_C_TYPE_H_
#define OPWRIGHT_PYTHON_C_TYPE_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Visits the references of an object for the garbage collector, and releases them.
template <typename Object, PyObject* Object::*... kMembers>
struct References {
  static int Visit(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    for (PyObject* held : {(reinterpret_cast<Object*>(object)->*kMembers)...}) Py_VISIT(held);
    return 0;
  }
  static int Clear(PyObject* object) {
    for (PyObject** held : {&(reinterpret_cast<Object*>(object)->*kMembers)...}) Py_CLEAR(*held);
    return 0;
  }
};

// Casts a function of any signature to the type that a method table contains.
template <typename Function>
PyCFunction AsMethod(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

// Creates a type and adds it to the module; it is never freed. Throws.
inline PyTypeObject* AddType(py::module_& module, const char* name, PyType_Spec* spec) {
  PyObject* type = PyType_FromSpec(spec);
  if (type == nullptr) throw py::error_already_set();
  module.add_object(name, py::reinterpret_borrow<py::object>(type));
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_C_TYPE_H_
