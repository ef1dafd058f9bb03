// Namespace: a module whose names depend on the current Context, at the cost of one lookup.
//
// An attribute is first looked up among the names of the guarded Context, then as in any module.
// The module's own __getattr__ finds operators and adds them.
#include "python/call/eager_namespace.h"

namespace opwright {

namespace {

PyObject* table_name = nullptr;  // interned once with the module and never freed

enum : Py_ssize_t { kGuard, kKey, kFound, kTableSize };

// Returns the entry of this name for the guarded Context, or null, with an error set on failure.
PyObject* FindCurrent(PyObject* table, PyObject* name) {
  PyObject* guarded = nullptr;
  if (PyContextVar_Get(PyTuple_GET_ITEM(table, kGuard), nullptr, &guarded) < 0) return nullptr;
  const bool is_current = guarded == PyTuple_GET_ITEM(table, kKey);
  Py_XDECREF(guarded);
  if (!is_current) return nullptr;
  return Py_XNewRef(PyDict_GetItemWithError(PyTuple_GET_ITEM(table, kFound), name));
}

PyObject* GetAttribute(PyObject* self, PyObject* name) {
  PyObject* table = PyDict_GetItemWithError(PyModule_GetDict(self), table_name);
  if (table != nullptr && PyTuple_CheckExact(table) && PyTuple_GET_SIZE(table) == kTableSize &&
      PyDict_CheckExact(PyTuple_GET_ITEM(table, kFound))) {
    Py_INCREF(table);  // another thread may replace it
    PyObject* found = FindCurrent(table, name);
    Py_DECREF(table);
    if (found != nullptr) return found;
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyModule_Type.tp_getattro(self, name);
}

PyType_Slot namespace_slots[] = {
    {Py_tp_getattro, reinterpret_cast<void*>(GetAttribute)},
    {Py_tp_doc, const_cast<char*>("A module that looks into __table__ first.")},
    {0, nullptr}};

PyType_Spec namespace_spec = {"opwright._runtime.Namespace", 0, 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, namespace_slots};

}  // namespace

void BindEagerNamespace(py::module_& module) {
  table_name = PyUnicode_InternFromString("__table__");
  const py::tuple base = py::make_tuple(py::handle(reinterpret_cast<PyObject*>(&PyModule_Type)));
  PyObject* type = PyType_FromSpecWithBases(&namespace_spec, base.ptr());
  if (table_name == nullptr || type == nullptr) throw py::error_already_set();
  module.add_object("Namespace", py::reinterpret_steal<py::object>(type));
}

}  // namespace opwright
