// EagerFunction: the function of an operator for users. Nearly all calls pass arguments by
// position. Such calls skip the Python function that binds names, because it costs a third as much
// as the operator itself.
#include <algorithm>
#include <array>

#include "python/bind/c_type.h"
#include "python/bind/handles.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

constexpr Py_ssize_t kMaxCompleted = 16;  // functions of more parameters are always bound

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* attributes;  // its __dict__
  PyObject* weak_references;
  PyObject* call;      // accepts every parameter by position
  PyObject* bind;      // a Python function that accepts the arguments of any call
  PyObject* defaults;  // defaults of all parameters
  Py_ssize_t n_positional;
};

FunctionObject* FunctionOf(PyObject* object) { return reinterpret_cast<FunctionObject*>(object); }

PyObject* CallFunction(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  const FunctionObject* self = FunctionOf(callable);
  if (self->call == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "eager function: the garbage collector has cleared it");
    return nullptr;
  }
  const Py_ssize_t n_args = PyVectorcall_NARGS(nargsf);
  const Py_ssize_t n = PyTuple_GET_SIZE(self->defaults);
  if (names != nullptr || n_args > self->n_positional || n > kMaxCompleted) {
    return PyObject_Vectorcall(self->bind, args, nargsf, names);
  }
  if (n_args == n) return PyObject_Vectorcall(self->call, args, nargsf, nullptr);
  std::array<PyObject*, kMaxCompleted> all;
  std::copy_n(args, n_args, all.begin());
  std::copy_n(&PyTuple_GET_ITEM(self->defaults, n_args), n - n_args, all.begin() + n_args);
  return PyObject_Vectorcall(self->call, all.data(), static_cast<size_t>(n), nullptr);
}

PyObject* NewFunction(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"call", "bind", "defaults", "n_positional", nullptr};
  PyObject* call = nullptr;
  PyObject* bind = nullptr;
  PyObject* defaults = nullptr;
  Py_ssize_t n_positional = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!n", const_cast<char**>(keywords), &call,
                                   &bind, &PyTuple_Type, &defaults, &n_positional)) {
    return nullptr;
  }
  if (n_positional < 0 || n_positional > PyTuple_GET_SIZE(defaults)) {
    PyErr_Format(PyExc_ValueError, "n_positional must be in [0, %zd], got %zd",
                 PyTuple_GET_SIZE(defaults), n_positional);
    return nullptr;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  FunctionObject* self = FunctionOf(object);
  self->vectorcall = CallFunction;
  self->call = Py_NewRef(call);
  self->bind = Py_NewRef(bind);
  self->defaults = Py_NewRef(defaults);
  self->n_positional = n_positional;
  return object;
}

using FunctionReferences =
    References<FunctionObject, &FunctionObject::attributes, &FunctionObject::call,
               &FunctionObject::bind, &FunctionObject::defaults>;

void DeallocateFunction(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (FunctionOf(object)->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  FunctionReferences::Clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* Represent(PyObject* object) {
  PyObject* name = PyObject_GetAttrString(object, "__qualname__");
  if (name == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromFormat("<operator %U>", name);
  Py_DECREF(name);
  return text;
}

// An EagerFunction is pickled by its qualified name, as functions are.
PyObject* Reduce(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(object, "__qualname__");
}

// If an EagerFunction is an attribute of a class, it is not bound to an instance, so it does not
// receive `self`. Because it has __get__, help() shows it as a routine.
PyObject* GetFromClass(PyObject* object, PyObject*, PyObject*) { return Py_NewRef(object); }

PyMethodDef function_methods[] = {{"__reduce__", Reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef function_properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot function_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewFunction)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(FunctionReferences::Visit)},
    {Py_tp_clear, reinterpret_cast<void*>(FunctionReferences::Clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateFunction)},
    {Py_tp_repr, reinterpret_cast<void*>(Represent)},
    {Py_tp_descr_get, reinterpret_cast<void*>(GetFromClass)},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {Py_tp_getset, function_properties},
    {0, nullptr}};

PyType_Spec function_spec = {"opwright._runtime.EagerFunction", sizeof(FunctionObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             function_slots};

}  // namespace

void BindEagerFunction(py::module_& module) { AddType(module, "EagerFunction", &function_spec); }

}  // namespace opwright
