// CompiledNetwork: the callable for users. A C type with vectorcall, since a Python wrapper
// costs more than the call.
#include <algorithm>
#include <vector>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/plan_table.h"
#include "python/call/run_frame.h"
#include "runtime/status.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

struct Network {
  std::shared_ptr<Scope> scope;
  std::shared_ptr<Device> device;  // null for the host
  std::shared_ptr<const Epoch> epoch;
  PlanSet* plans = nullptr;  // of the object's `plans`
};

struct NetworkObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Network* network;
  PyObject* scope;
  PyObject* feed_names;  // a tuple of interned strings
  PyObject* source;
  PyObject* plans;  // a Plans
  PyObject* weak_references;
  char fetch_device;
};

NetworkObject* NetworkOf(PyObject* object) { return reinterpret_cast<NetworkObject*>(object); }

PyObject* SourceOf(NetworkObject* self) {
  if (self->source == nullptr) {
    Throw(ErrorKind::kProgram, "compiled network: the garbage collector has taken it apart");
  }
  return self->source;
}

// Provides the values of a call in the order of feed_names: those by position come first. False
// where they are not one for each name.
bool OrderFeeds(const NetworkObject* self, PyObject* const* args, Py_ssize_t n_positional,
                PyObject* names, PyObject** feeds) {
  const Py_ssize_t n = PyTuple_GET_SIZE(self->feed_names);
  const Py_ssize_t n_named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (n_positional + n_named != n) return false;
  std::copy_n(args, n_positional, feeds);
  std::fill(feeds + n_positional, feeds + n, nullptr);
  for (Py_ssize_t i = 0; i < n_named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    // Call sites give interned names, mostly in one order: identity settles it.
    Py_ssize_t at = n_positional + i;
    if (name != PyTuple_GET_ITEM(self->feed_names, at)) {
      for (at = 0; at < n; ++at) {
        if (PyUnicode_Compare(name, PyTuple_GET_ITEM(self->feed_names, at)) == 0) break;
      }
      if (at == n || feeds[at] != nullptr) return false;
    }
    feeds[at] = args[n_positional + i];
  }
  return true;
}

// Has the source say what is wrong with the names of a call; throws.
[[noreturn]] void RefuseNames(NetworkObject* self, Py_ssize_t n_positional,
                              const py::tuple& names) {
  const py::handle source(SourceOf(self));
  if (py::hasattr(source, "refuse_names")) source.attr("refuse_names")(n_positional, names);
  Throw(ErrorKind::kFeed, "feeds are ", py::repr(self->feed_names).cast<std::string>(), ", got ",
        n_positional, " by position and ", py::repr(names).cast<std::string>());
}

// Reads one value, once: in C++, or in the source's `read_feed`.
void ReadFeed(NetworkObject* self, Py_ssize_t i, PyObject* value, Intake* intake) {
  if (intake->Read(value, self->network->device)) return;
  const py::handle source(SourceOf(self));
  if (!py::hasattr(source, "read_feed")) {
    Throw(ErrorKind::kFeed,
          py::str(py::handle(PyTuple_GET_ITEM(self->feed_names, i))).cast<std::string>(),
          ": a feed is a C-contiguous, aligned ndarray of native byte order, got another ",
          Py_TYPE(value)->tp_name);
  }
  py::object ready = source.attr("read_feed")(i, py::handle(value));
  if (!intake->Add(ready.release().ptr())) {
    Throw(ErrorKind::kFeed, "read_feed: must return an array that is ready, or a Tensor");
  }
}

EntryPtr MakeEntry(NetworkObject* self, const Intake& intake) {
  auto entry = EntryPtr::Make();
  entry->epoch = self->network->epoch;
  entry->made_at = entry->epoch->now();
  py::tuple values(intake.size());
  for (size_t i = 0; i < intake.size(); ++i) {
    values[i] = py::reinterpret_borrow<py::object>(intake[i]);
  }
  entry->lowered = py::handle(SourceOf(self))(values);
  py::object plan = entry->lowered;
  if (!py::isinstance<PlanHandle>(plan)) plan = plan.attr("plan");
  entry->plan = plan.cast<PlanHandle&>().plan;
  CheckRunnable(*entry->plan);
  entry->handed = py::getattr(entry->lowered, "handed", py::none());
  if (entry->handed.is_none()) entry->handed = py::object();
  for (size_t i = 0; i < entry->plan->feeds.size(); ++i) {
    const External& external = entry->plan->externals[entry->plan->feeds[i]];
    const py::str name(external.name);
    const Py_ssize_t at = PySequence_Index(self->feed_names, name.ptr());
    if (at < 0) throw py::error_already_set();
    entry->order.push_back(static_cast<uint32_t>(at));
    CheckFeed(*entry->plan, i, intake[static_cast<size_t>(at)]);
  }
  for (size_t i = 0; i < intake.size(); ++i) entry->key.metas.push_back(FeedMeta::Of(intake[i]));
  entry->hash = intake.Hash();
  entry->bytes = entry->plan->held_bytes;
  if (entry->plan->devices[0].device->is_host()) entry->plan->BoundIdleMemory();
  return entry;
}

EntryPtr FindEntry(NetworkObject* self, const Intake& intake) {
  return PlansOf(self->plans)
      .Find([&](const PlanEntry& entry) { return intake.Match(entry.key.metas); },
            [&] { return intake.Hash(); });
}

// The entry for these values, lowered where there is none. `outdated` does not fit the scope.
EntryPtr NeedEntry(NetworkObject* self, const Intake& intake, const PlanEntry* outdated) {
  if (outdated == nullptr) {
    auto known = FindEntry(self, intake);
    if (known) return known;
  }
  auto entry = MakeEntry(self, intake);
  PlansOf(self->plans).Add(entry, outdated);
  return entry;
}

RunRequest RequestOf(const NetworkObject* self, const PlanEntry& entry, PyObject* const* feeds) {
  return {entry.plan,         self->network->scope, feeds,
          entry.order.data(), ResultForm::kList,    self->fetch_device != 0};
}

PyObject* WithHanded(const PlanEntry& entry, PyObject* results) {
  if (__builtin_expect(!entry.handed, 1) || results == nullptr) return results;
  if (PyList_Append(results, entry.handed.ptr()) != 0) Py_CLEAR(results);
  return results;
}

// The plan that ran last, if it fits and every feed is ready: the usual call goes no further.
inline EntryPtr FindLast(const NetworkObject* self, PyObject* const* feeds, size_t n_feeds) {
  const EntryPtr& last = self->network->plans->last();
  if (!last || !last->IsCurrent()) return {};
  const FeedMeta* metas = last->key.metas.data();
  for (size_t i = 0; i < n_feeds; ++i) {
    if (!IsReady(feeds[i]) || !metas[i].Matches(feeds[i])) return {};
  }
  return self->network->plans->UseLast();
}

// `outdated` does not fit the scope; null where no plan has been tried.
__attribute__((noinline)) PyObject* CallWith(NetworkObject* self, PyObject* const* feeds,
                                             size_t n_feeds, EntryPtr outdated) {
  Intake intake;
  for (size_t i = 0; i < n_feeds; ++i) {
    ReadFeed(self, static_cast<Py_ssize_t>(i), feeds[i], &intake);
  }
  EntryPtr entry = outdated ? EntryPtr() : FindEntry(self, intake);
  if (entry) {
    BindProblem problem;
    PyObject* result = RunPlan(RequestOf(self, *entry, intake.data()), &problem);
    if (result != nullptr || PyErr_Occurred()) return WithHanded(*entry, result);
    outdated = entry;
  }
  entry = NeedEntry(self, intake, outdated.get());
  return WithHanded(*entry, RunPlanOrRaise(RequestOf(self, *entry, intake.data())));
}

PyObject* CallNetwork(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  NetworkObject* self = NetworkOf(callable);
  constexpr size_t kFew = 16;
  PyObject* few[kFew];
  try {
    const Py_ssize_t n_positional = PyVectorcall_NARGS(nargsf);
    const auto n_feeds = static_cast<size_t>(PyTuple_GET_SIZE(self->feed_names));
    std::vector<PyObject*> many(n_feeds > kFew ? n_feeds : 0);
    PyObject** feeds = n_feeds > kFew ? many.data() : few;
    if (__builtin_expect(!OrderFeeds(self, args, n_positional, names, feeds), 0)) {
      RefuseNames(self, n_positional,
                  names == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(names));
    }
    const EntryPtr entry = FindLast(self, feeds, n_feeds);
    if (entry) {
      BindProblem problem;
      PyObject* result = RunPlan(RequestOf(self, *entry, feeds), &problem);
      if (result != nullptr || PyErr_Occurred()) return WithHanded(*entry, result);
    }
    return CallWith(self, feeds, n_feeds, entry);
  } catch (...) {
    return SetPythonError();
  }
}

// Whether the variables of the scope are still what the plan was made for.
bool FitsScope(NetworkObject* self, const PlanEntry& entry) {
  const std::shared_ptr<Scope>& scope = self->network->scope;
  const Lease lease(*entry.plan, scope.get());
  BindProblem problem;
  return lease->IsBound(scope.get()) || lease->Bind(scope, &problem);
}

// find_plan(feeds): the lowered plan for these feeds by name, and the feeds in order.
PyObject* FindPlan(PyObject* object, PyObject* feeds) {
  NetworkObject* self = NetworkOf(object);
  try {
    const auto named = py::reinterpret_borrow<py::dict>(feeds);
    const auto names = py::reinterpret_borrow<py::tuple>(self->feed_names);
    if (named.size() != names.size()) RefuseNames(self, 0, py::tuple(named));
    Intake intake;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!named.contains(names[i])) RefuseNames(self, 0, py::tuple(named));
      const py::object value = named[names[i]];
      ReadFeed(self, static_cast<Py_ssize_t>(i), value.ptr(), &intake);
    }
    auto entry = NeedEntry(self, intake, nullptr);
    if (!FitsScope(self, *entry)) entry = NeedEntry(self, intake, entry.get());
    py::tuple ordered(entry->plan->feeds.size());
    for (size_t i = 0; i < entry->order.size(); ++i) {
      ordered[i] = py::reinterpret_borrow<py::object>(intake[entry->order[i]]);
    }
    return py::make_tuple(entry->lowered, ordered).release().ptr();
  } catch (...) {
    return SetPythonError();
  }
}

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

int TraverseNetwork(PyObject* object, visitproc visit, void* arg) {
  NetworkObject* self = NetworkOf(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->scope);
  Py_VISIT(self->feed_names);
  Py_VISIT(self->source);
  Py_VISIT(self->plans);
  return 0;
}

int ClearNetwork(PyObject* object) {
  NetworkObject* self = NetworkOf(object);
  if (self->plans != nullptr) PlansOf(self->plans).Clear();
  Py_CLEAR(self->source);
  return 0;
}

void DeallocateNetwork(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  NetworkObject* self = NetworkOf(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  delete self->network;
  Py_XDECREF(self->plans);
  Py_XDECREF(self->source);
  Py_XDECREF(self->feed_names);
  Py_XDECREF(self->scope);
  type->tp_free(object);
  Py_DECREF(type);
}

// A method that the Python object behind the network has: `source.NAME(network, ...)`.
PyObject* CallSource(const char* name, PyObject* object, PyObject* args, PyObject* kwargs) {
  try {
    const py::handle source(SourceOf(NetworkOf(object)));
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
    {"find_plan", FindPlan, METH_O,
     "find_plan(feeds): the lowered plan for these feeds, and the feeds in its order."},
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
    {"source", T_OBJECT_EX, offsetof(NetworkObject, source), READONLY,
     "What lowers the plan for feeds, as it was given."},
    {"plans", T_OBJECT_EX, offsetof(NetworkObject, plans), READONLY, "The plans that are kept."},
    {"scope", T_OBJECT_EX, offsetof(NetworkObject, scope), READONLY, "The scope of every call."},
    {"feed_names", T_OBJECT_EX, offsetof(NetworkObject, feed_names), READONLY,
     "The names that a call gives its feeds by."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot network_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewNetwork)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(TraverseNetwork)},
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

void BindCompiledNetwork(py::module_& module) {
  PyObject* type = PyType_FromSpec(&network_spec);
  if (type == nullptr) throw py::error_already_set();
  module.add_object("CompiledNetwork", py::reinterpret_steal<py::object>(type));
}

}  // namespace opwright
