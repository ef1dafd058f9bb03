// The type CompiledNetwork: created, kept alive and freed.
#include "python/call/network.h"

#include "python/bind/c_type.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "runtime/status.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

PyObject* NewNetwork(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"scope", "feed_names", "source", "device",
                                   "epoch", "label",      nullptr};
  PyObject* scope = nullptr;
  PyObject* feed_names = nullptr;
  PyObject* source = nullptr;
  PyObject* device = Py_None;
  PyObject* epoch = Py_None;
  const char* label = "network";
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOs", const_cast<char**>(keywords), &scope,
                                   &feed_names, &source, &device, &epoch, &label)) {
    return nullptr;
  }
  try {
    auto network = std::make_unique<Network>();
    network->scope = py::handle(scope).cast<std::shared_ptr<Scope>>();
    auto given = py::handle(device).cast<std::shared_ptr<Device>>();
    if (given && !given->is_host()) network->device = std::move(given);
    network->epoch = epoch == Py_None ? std::make_shared<Epoch>()
                                      : py::handle(epoch).cast<std::shared_ptr<Epoch>>();
    py::list names;
    for (const py::handle name : py::reinterpret_borrow<py::iterable>(feed_names)) {
      PyObject* interned = py::str(name).release().ptr();
      PyUnicode_InternInPlace(&interned);
      names.append(py::reinterpret_steal<py::object>(interned));
    }
    const auto plans = py::reinterpret_steal<py::object>(NewPlans(label, true));
    if (!plans) throw py::error_already_set();
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    NetworkObject* self = NetworkOf(object);
    self->vectorcall = CallNetwork;
    self->network = network.release();
    self->scope = Py_NewRef(scope);
    self->feed_names = py::tuple(names).release().ptr();
    self->source = Py_NewRef(source);
    self->plans = Py_NewRef(plans.ptr());
    self->network->plans = &PlansOf(self->plans);
    return object;
  } catch (...) {
    return SetPythonError();
  }
}

using NetworkReferences =
    References<NetworkObject, &NetworkObject::scope, &NetworkObject::feed_names,
               &NetworkObject::source, &NetworkObject::plans, &NetworkObject::fetch_as,
               &NetworkObject::writes>;

// Drops only references that can form cycles, because running calls use the remaining references.
int ClearNetwork(PyObject* object) {
  NetworkObject* self = NetworkOf(object);
  if (self->plans != nullptr) PlansOf(self->plans).Clear();
  return References<NetworkObject, &NetworkObject::source, &NetworkObject::fetch_as>::Clear(object);
}

void DeallocateNetwork(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  NetworkObject* self = NetworkOf(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  delete self->network;
  NetworkReferences::Clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

// Calls a method of the network's Python object: `source.NAME(network, ...)`.
PyObject* CallSource(const char* name, PyObject* object, PyObject* args, PyObject* kwargs) {
  try {
    const py::handle source(SourceOf(NetworkOf(object)));
    if (!py::hasattr(source, name)) {
      Throw(ErrorKind::kProgram, name,
            ": must be called on a result of Network.compile, got a callable that was made by "
            "hand; time its plan with Plan.time_steps");
    }
    const auto named =
        kwargs == nullptr ? py::kwargs() : py::reinterpret_borrow<py::kwargs>(kwargs);
    const auto listed = py::reinterpret_borrow<py::args>(args);
    return source.attr(name)(py::handle(object), *listed, **named).release().ptr();
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* PlanFor(PyObject* object, PyObject* args, PyObject* kwargs) {
  return CallSource("plan_for", object, args, kwargs);
}

PyObject* Profile(PyObject* object, PyObject* args, PyObject* kwargs) {
  return CallSource("profile", object, args, kwargs);
}

PyMethodDef network_methods[] = {
    {"find_plan", FindPlan, METH_O,
     "find_plan(feeds): the lowered plan for these feeds, and the feeds in its order."},
    {"plan_for", AsMethod(PlanFor), METH_VARARGS | METH_KEYWORDS,
     "plan_for(feeds=None, scope=None): the plan, and its feeds."},
    {"profile", AsMethod(Profile), METH_VARARGS | METH_KEYWORDS,
     "profile(feeds=None, n=None): the time of each step."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef network_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NetworkObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NetworkObject, weak_references), READONLY, nullptr},
    {"fetch_device", T_BOOL, offsetof(NetworkObject, fetch_device), 0,
     "Return Tensors on the device of the values instead of arrays."},
    {"detach", T_BOOL, offsetof(NetworkObject, detach), 0,
     "Read feeds that require a gradient as their detach()."},
    {"fetch_as", T_OBJECT, offsetof(NetworkObject, fetch_as), 0,
     "Converts each result, unless a call gives another converter."},
    {"writes", T_OBJECT, offsetof(NetworkObject, writes), 0,
     "The names of feeds that the plans write."},
    {"source", T_OBJECT_EX, offsetof(NetworkObject, source), READONLY,
     "The source object that lowers plans."},
    {"plans", T_OBJECT_EX, offsetof(NetworkObject, plans), READONLY, "The plans that are kept."},
    {"scope", T_OBJECT_EX, offsetof(NetworkObject, scope), READONLY, "The scope of every call."},
    {"feed_names", T_OBJECT_EX, offsetof(NetworkObject, feed_names), READONLY,
     "The argument names of feeds in a call."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot network_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewNetwork)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(NetworkReferences::Visit)},
    {Py_tp_clear, reinterpret_cast<void*>(ClearNetwork)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateNetwork)},
    {Py_tp_methods, network_methods},
    {Py_tp_members, network_members},
    {Py_tp_doc,
     const_cast<char*>("A network compiled for a device: ``f(*feeds, **feeds) -> list``.")},
    {0, nullptr}};

PyType_Spec network_spec = {"opwright._runtime.CompiledNetwork", sizeof(NetworkObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                            network_slots};

}  // namespace

void BindCompiledNetwork(py::module_& module) { AddType(module, "CompiledNetwork", &network_spec); }

}  // namespace opwright
