// CompiledNetwork: the callable for users. A C type with vectorcall, since a Python wrapper
// costs more than the call.
#include <algorithm>
#include <vector>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/feeds.h"
#include "python/call/run_frame.h"
#include "runtime/status.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

constexpr size_t kMaxPlans = 8;

// One plan, for feeds of these metas.
struct Entry {
  std::shared_ptr<const Plan> plan;
  std::vector<FeedMeta> metas;  // in the order of feed_names
  std::vector<uint32_t> order;  // which feed each feed external of the plan takes
};

struct Network {
  std::shared_ptr<Scope> scope;
  std::shared_ptr<Device> device;                     // null for the host
  std::vector<std::shared_ptr<const Entry>> entries;  // most recent first
  uint64_t n_clears = 0;
};

struct NetworkObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Network* network;
  PyObject* scope;
  PyObject* feed_names;  // a tuple of interned strings
  PyObject* resolve;
  PyObject* weak_references;  // what may choose other kernels keeps a list of those to tell
  char fetch_device;
};

NetworkObject* NetworkOf(PyObject* object) { return reinterpret_cast<NetworkObject*>(object); }

// Provides the feeds into the order of feed_names. False when they do not match.
bool OrderFeeds(const NetworkObject* self, PyObject* const* args, PyObject* names,
                PyObject** feeds) {
  const Py_ssize_t n = PyTuple_GET_SIZE(self->feed_names);
  if ((names == nullptr ? 0 : PyTuple_GET_SIZE(names)) != n) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    // Call sites give interned names, mostly in one order: identity settles it.
    Py_ssize_t at = i;
    if (name != PyTuple_GET_ITEM(self->feed_names, i)) {
      for (at = 0; at < n; ++at) {
        if (PyUnicode_Compare(name, PyTuple_GET_ITEM(self->feed_names, at)) == 0) break;
      }
      if (at == n) return false;
    }
    feeds[at] = args[i];
  }
  return true;
}

std::shared_ptr<const Entry> FindEntry(Network* network, PyObject* const* feeds, size_t n_feeds) {
  for (size_t i = 0; i < n_feeds; ++i) {
    if (!IsReady(feeds[i]) && FeedTensor(feeds[i]) == nullptr) return nullptr;
  }
  auto& entries = network->entries;
  for (size_t e = 0; e < entries.size(); ++e) {
    const Entry& entry = *entries[e];
    bool matches = true;
    for (size_t i = 0; matches && i < n_feeds; ++i) {
      matches = entry.metas[i].MatchesFeed(feeds[i]);
    }
    if (!matches) continue;
    const auto begin = entries.begin();
    const auto found = begin + static_cast<std::ptrdiff_t>(e);
    if (e != 0) std::rotate(begin, found, found + 1);
    return entries[0];
  }
  return nullptr;
}

// Asks `resolve` for a plan and ready arrays, and remembers the plan; throws.
std::shared_ptr<const Entry> Resolve(NetworkObject* self, const py::dict& named,
                                     std::vector<py::object>* arrays) {
  if (self->resolve == nullptr) {
    Throw(ErrorKind::kProgram, "compiled network: the garbage collector has taken it apart");
  }
  const uint64_t n_clears = self->network->n_clears;
  const py::object answer = py::handle(self->resolve)(named);
  const auto pair = answer.cast<std::pair<py::object, py::sequence>>();
  auto entry = std::make_shared<Entry>();
  entry->plan = pair.first.cast<PlanHandle&>().plan;
  CheckRunnable(*entry->plan);
  const Py_ssize_t n = PyTuple_GET_SIZE(self->feed_names);
  if (static_cast<Py_ssize_t>(py::len(pair.second)) != n) {
    Throw(ErrorKind::kFeed, "resolve: one array a feed is needed, got ", py::len(pair.second),
          " for ", n);
  }
  for (const py::handle array : pair.second) {
    arrays->push_back(py::reinterpret_borrow<py::object>(array));
  }
  for (size_t i = 0; i < entry->plan->feeds.size(); ++i) {
    const External& external = entry->plan->externals[entry->plan->feeds[i]];
    const py::str name(external.name);
    const Py_ssize_t at = PySequence_Index(self->feed_names, name.ptr());
    if (at < 0) throw py::error_already_set();
    entry->order.push_back(static_cast<uint32_t>(at));
    CheckFeed(*entry->plan, i, (*arrays)[static_cast<size_t>(at)].ptr());
  }
  for (const py::object& array : *arrays) {
    if (!IsReady(array.ptr()) && FeedTensor(array.ptr()) == nullptr) {
      Throw(ErrorKind::kFeed, "resolve: arrays must be ready as they are, got ",
            py::repr(py::type::of(array)).cast<std::string>());
    }
    entry->metas.push_back(FeedMeta::Of(array.ptr()));
  }
  if (self->network->n_clears != n_clears) return entry;  // cleared meanwhile: for this call only
  auto& entries = self->network->entries;
  // A plan that no longer fits the scope makes room for its successor.
  std::vector<std::shared_ptr<const Entry>> kept{entry};
  for (const auto& other : entries) {
    bool same = true;
    for (size_t i = 0; same && i < arrays->size(); ++i) {
      same = other->metas[i].MatchesFeed((*arrays)[i].ptr());
    }
    if (!same && kept.size() < kMaxPlans) kept.push_back(other);
  }
  entries.swap(kept);  // the others are freed at the end, when the list is whole again
  return entry;
}

// Takes over feeds that lie on the network's device. What cannot be is left as it is: the slow way
// says why.
std::vector<py::object> AdoptFeeds(const Network& network, PyObject** feeds, size_t n_feeds) {
  std::vector<py::object> adopted;
  for (size_t i = 0; network.device && i < n_feeds; ++i) {
    if (PyArray_CheckExact(feeds[i])) continue;
    try {
      if (!IsOnDevice(feeds[i], network.device)) continue;
      adopted.push_back(py::cast(TensorHandle{FromArray(feeds[i], network.device, "feed")}));
      feeds[i] = adopted.back().ptr();
    } catch (py::error_already_set&) {
      break;
    } catch (const Error&) {
      break;
    }
  }
  return adopted;
}

PyObject* CallSlowly(NetworkObject* self, PyObject* const* args, PyObject* names) {
  py::dict named;
  const Py_ssize_t n = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[i]) < 0) return nullptr;
  }
  std::vector<py::object> arrays;
  const std::shared_ptr<const Entry> entry = Resolve(self, named, &arrays);
  std::vector<PyObject*> feeds;
  feeds.reserve(arrays.size());
  for (const py::object& array : arrays) feeds.push_back(array.ptr());
  return RunPlanOrRaise({entry->plan, self->network->scope, feeds.data(), entry->order.data(),
                         ResultForm::kList, self->fetch_device != 0});
}

PyObject* CallNetwork(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  NetworkObject* self = NetworkOf(callable);
  constexpr size_t kFew = 16;
  PyObject* few[kFew];
  if (PyVectorcall_NARGS(nargsf) != 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a compiled network takes its feeds by name, got a positional argument; "
                    "write f(name=array)");
    return nullptr;
  }
  try {
    const auto n_feeds = static_cast<size_t>(PyTuple_GET_SIZE(self->feed_names));
    std::vector<PyObject*> many(n_feeds > kFew ? n_feeds : 0);
    PyObject** feeds = n_feeds > kFew ? many.data() : few;
    if (OrderFeeds(self, args, names, feeds)) {
      const auto adopted = AdoptFeeds(*self->network, feeds, n_feeds);
      const auto entry = FindEntry(self->network, feeds, n_feeds);
      if (entry) {
        BindProblem problem;
        PyObject* result = RunPlan({entry->plan, self->network->scope, feeds, entry->order.data(),
                                    ResultForm::kList, self->fetch_device != 0},
                                   &problem);
        if (result != nullptr || PyErr_Occurred()) return result;
      }
    }
    return CallSlowly(self, args, names);
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* NewNetwork(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"scope", "feed_names", "resolve", "device", nullptr};
  PyObject* scope = nullptr;
  PyObject* feed_names = nullptr;
  PyObject* resolve = nullptr;
  PyObject* device = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|O", const_cast<char**>(keywords), &scope,
                                   &feed_names, &resolve, &device)) {
    return nullptr;
  }
  try {
    auto network = std::make_unique<Network>();
    network->scope = py::handle(scope).cast<std::shared_ptr<Scope>>();
    auto given = py::handle(device).cast<std::shared_ptr<Device>>();
    if (given && !given->is_host()) network->device = std::move(given);
    py::list names;
    for (const py::handle name : py::reinterpret_borrow<py::iterable>(feed_names)) {
      PyObject* interned = py::str(name).release().ptr();
      PyUnicode_InternInPlace(&interned);
      names.append(py::reinterpret_steal<py::object>(interned));
    }
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    NetworkObject* self = NetworkOf(object);
    self->vectorcall = CallNetwork;
    self->network = network.release();
    self->scope = Py_NewRef(scope);
    self->feed_names = py::tuple(names).release().ptr();
    self->resolve = Py_NewRef(resolve);
    return object;
  } catch (...) {
    return SetPythonError();
  }
}

int TraverseNetwork(PyObject* object, visitproc visit, void* arg) {
  NetworkObject* self = NetworkOf(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->scope);
  Py_VISIT(self->feed_names);
  Py_VISIT(self->resolve);
  return 0;
}

int ClearNetwork(PyObject* object) {
  NetworkObject* self = NetworkOf(object);
  if (self->network != nullptr) self->network->entries.clear();
  Py_CLEAR(self->resolve);
  return 0;
}

void DeallocateNetwork(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  NetworkObject* self = NetworkOf(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  delete self->network;
  Py_XDECREF(self->resolve);
  Py_XDECREF(self->feed_names);
  Py_XDECREF(self->scope);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* ClearNetworkPlans(PyObject* object, PyObject*) {
  std::vector<std::shared_ptr<const Entry>> dropped;
  dropped.swap(NetworkOf(object)->network->entries);
  ++NetworkOf(object)->network->n_clears;
  return Py_NewRef(Py_None);
}

PyObject* CountNetworkPlans(PyObject* object, void*) {
  return PyLong_FromSize_t(NetworkOf(object)->network->entries.size());
}

// A method that the Python object behind the network has: `resolve.NAME(network, ...)`.
PyObject* CallSource(const char* name, PyObject* object, PyObject* args, PyObject* kwargs) {
  try {
    const py::handle source(NetworkOf(object)->resolve);
    if (!py::hasattr(source, name)) {
      Throw(ErrorKind::kProgram, name,
            ": must be called on what Network.compile returned, got a callable that was made by "
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
    {"clear", ClearNetworkPlans, METH_NOARGS, "Forget the plans; those that run go on."},
    {"plan_for", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(PlanFor)),
     METH_VARARGS | METH_KEYWORDS, "plan_for(feeds=None, scope=None): the plan, and its feeds."},
    {"profile", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Profile)),
     METH_VARARGS | METH_KEYWORDS, "profile(feeds=None, n=None): what each step takes."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef network_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NetworkObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NetworkObject, weak_references), READONLY, nullptr},
    {"fetch_device", T_BOOL, offsetof(NetworkObject, fetch_device), 0,
     "Return Tensors where the values live instead of arrays."},
    {"resolve", T_OBJECT_EX, offsetof(NetworkObject, resolve), READONLY,
     "What finds the plan for feeds, as it was given."},
    {"scope", T_OBJECT_EX, offsetof(NetworkObject, scope), READONLY, "The scope of every call."},
    {"feed_names", T_OBJECT_EX, offsetof(NetworkObject, feed_names), READONLY,
     "The names that a call gives its feeds by."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef network_properties[] = {
    {"n_plans", CountNetworkPlans, nullptr, "How many plans are kept.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot network_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewNetwork)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(TraverseNetwork)},
    {Py_tp_clear, reinterpret_cast<void*>(ClearNetwork)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateNetwork)},
    {Py_tp_methods, network_methods},
    {Py_tp_members, network_members},
    {Py_tp_getset, network_properties},
    {Py_tp_doc, const_cast<char*>("A network compiled for a device: ``f(**feeds) -> list``.")},
    {0, nullptr}};

PyType_Spec network_spec = {"opwright._runtime.CompiledNetwork", sizeof(NetworkObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                            network_slots};

}  // namespace

void BindCompiledNetwork(py::module_& module) {
  PyObject* type = PyType_FromSpec(&network_spec);
  if (type == nullptr) throw py::error_already_set();
  module.add_object("CompiledNetwork", py::reinterpret_steal<py::object>(type));
}

}  // namespace opwright
