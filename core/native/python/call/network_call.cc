// Calls of compiled networks: reads the feeds, finds their plan, runs it and returns the fetches.
#include <algorithm>
#include <vector>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/network.h"
#include "python/call/run_frame.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// The options of a call.
struct CallOptions {
  PyObject* fetch_as;                            // null keeps NumPy arrays
  const std::vector<py::object>* out = nullptr;  // results of BorrowMemory
};

PyObject* FetchAs(const NetworkObject* self) {
  return self->fetch_as == Py_None ? nullptr : self->fetch_as;
}

// Arranges the values of a call in the order of feed_names; positional values come first. Returns
// false unless there is exactly one value per name.
bool OrderFeeds(const NetworkObject* self, PyObject* const* args, Py_ssize_t n_positional,
                PyObject* names, PyObject** feeds) {
  const Py_ssize_t n = PyTuple_GET_SIZE(self->feed_names);
  const Py_ssize_t n_named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (n_positional + n_named != n) return false;
  std::copy_n(args, n_positional, feeds);
  std::fill(feeds + n_positional, feeds + n, nullptr);
  for (Py_ssize_t i = 0; i < n_named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    // Call sites pass interned names, mostly in the same order, so comparing identity usually
    // suffices.
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

// Throws the error for invalid names in a call; the Python source raises it if possible.
[[noreturn]] void RefuseNames(NetworkObject* self, Py_ssize_t n_positional,
                              const py::tuple& names) {
  const py::handle source(SourceOf(self));
  if (py::hasattr(source, "refuse_names")) source.attr("refuse_names")(n_positional, names);
  Throw(ErrorKind::kFeed, "feeds are ", py::repr(self->feed_names).cast<std::string>(), ", got ",
        n_positional, " by position and ", py::repr(names).cast<std::string>());
}

// Reads a feed that the plan writes, which must never be copied. `name` is the feed's name.
void ReadWritten(NetworkObject* self, const py::handle& name, PyObject* value, Intake* intake) {
  const std::string who = Concat("feed '", name.cast<std::string>(), "'");
  py::object borrowed = BorrowMemory(value, self->network->device, who);
  if (intake->Add(borrowed.release().ptr())) return;
  Throw(ErrorKind::kFeed, who,
        ": it is written, so it must be contiguous, aligned and of native byte order, got another ",
        Py_TYPE(value)->tp_name, "; pass a contiguous array");
}

// Reads a value once, either in C++ or in the source's `read_feed`.
void ReadFeed(NetworkObject* self, Py_ssize_t i, PyObject* value, Intake* intake) {
  const Detaching detaching(self->detach != 0);
  if (self->writes != nullptr) {
    PyObject* name = PyTuple_GET_ITEM(self->feed_names, i);
    const int is_written = PySequence_Contains(self->writes, name);
    if (is_written < 0) throw py::error_already_set();
    if (is_written != 0) return ReadWritten(self, name, value, intake);
  }
  if (intake->Read(value, self->network->device)) return;
  const py::handle source(SourceOf(self));
  if (!py::hasattr(source, "read_feed")) {
    Throw(ErrorKind::kFeed,
          py::str(py::handle(PyTuple_GET_ITEM(self->feed_names, i))).cast<std::string>(),
          ": a feed must be a C-contiguous, aligned ndarray of native byte order, got another ",
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

// Returns the entry for these values, and lowers a plan if there is none. `outdated` is an entry
// that does not fit the scope.
EntryPtr NeedEntry(NetworkObject* self, const Intake& intake, const PlanEntry* outdated) {
  if (outdated == nullptr) {
    auto known = FindEntry(self, intake);
    if (known) return known;
  }
  auto entry = MakeEntry(self, intake);
  PlansOf(self->plans).Add(entry, outdated);
  return entry;
}

RunRequest RequestOf(const NetworkObject* self, const PlanEntry& entry, PyObject* const* feeds,
                     const CallOptions& options) {
  return {entry.plan,        self->network->scope,    feeds,      entry.order.data(),
          ResultForm::kList, self->fetch_device != 0, options.out};
}

// Returns the plan that ran last if it fits and every feed is ready, which is sufficient for the
// usual call.
inline EntryPtr FindLast(const NetworkObject* self, PyObject* const* feeds, size_t n_feeds) {
  const EntryPtr& last = self->network->plans->last();
  if (!last || !last->IsCurrent()) return {};
  const FeedMeta* metas = last->key.metas.data();
  for (size_t i = 0; i < n_feeds; ++i) {
    if (!IsReady(feeds[i]) || !metas[i].Matches(feeds[i])) return {};
  }
  return self->network->plans->UseLast();
}

// Converts a result with an importer. A type with an exchange API imports it without a Python call.
// On failure, returns NULL and sets an error, or throws.
PyObject* Import(PyObject* fetch_as, PyObject* result) {
  if (!PyArray_CheckExact(result)) return PyObject_CallOneArg(fetch_as, result);
  ArrayKind kind;
  const bool is_kind = PyType_Check(fetch_as) &&
                       FindKind(reinterpret_cast<PyTypeObject*>(fetch_as), &kind) &&
                       kind.api != nullptr;
  if (is_kind) return GiveToLibrary(kind, result);
  if (PyArray_TYPE(AsArray(result)) < NPY_USERDEF) return PyObject_CallOneArg(fetch_as, result);
  // NumPy cannot export bfloat16.
  const py::object tensor = py::cast(TensorHandle{TensorFromNumpy(result, HostDevice(), "fetch")});
  return PyObject_CallOneArg(fetch_as, tensor.ptr());
}

// Converts the list of results to the requested form, followed by the plan's extra result; steals
// the reference and returns a new one.
PyObject* Deliver(const PlanEntry& entry, PyObject* results, const CallOptions& options) {
  const bool is_usual = options.fetch_as == nullptr && !entry.handed;
  if (__builtin_expect(is_usual, 1) || results == nullptr) return results;
  auto held = py::reinterpret_steal<py::object>(results);
  for (Py_ssize_t i = 0; options.fetch_as != nullptr && i < PyList_GET_SIZE(results); ++i) {
    if (options.out != nullptr && (*options.out)[static_cast<size_t>(i)]) continue;
    PyObject* made = Import(options.fetch_as, PyList_GET_ITEM(results, i));
    if (made == nullptr) return nullptr;
    PyList_SetItem(results, i, made);
  }
  if (entry.handed && PyList_Append(results, entry.handed.ptr()) != 0) return nullptr;
  return held.release().ptr();
}

// `outdated` is an entry that does not fit the scope, or null if no plan has been tried.
__attribute__((noinline)) PyObject* CallWith(NetworkObject* self, PyObject* const* feeds,
                                             size_t n_feeds, EntryPtr outdated,
                                             const CallOptions& options) {
  Intake intake;
  for (size_t i = 0; i < n_feeds; ++i) {
    ReadFeed(self, static_cast<Py_ssize_t>(i), feeds[i], &intake);
  }
  EntryPtr entry = outdated ? EntryPtr() : FindEntry(self, intake);
  if (entry) {
    BindProblem problem;
    PyObject* result = RunPlan(RequestOf(self, *entry, intake.data(), options), &problem);
    if (result != nullptr || PyErr_Occurred()) return Deliver(*entry, result, options);
    outdated = entry;
  }
  entry = NeedEntry(self, intake, outdated.get());
  return Deliver(*entry, RunPlanOrRaise(RequestOf(self, *entry, intake.data(), options)), options);
}

// Whether all feeds are given in one dict.
bool IsDict(PyObject* const* args, Py_ssize_t n_positional) {
  return n_positional == 1 && PyDict_Check(args[0]);
}

// Returns the arrays to write fetches into; None stands for new memory.
std::vector<py::object> ReadOut(const NetworkObject* self, const py::tuple& out) {
  static const std::shared_ptr<Device> host;
  std::vector<py::object> read;
  const Detaching detaching(self->detach != 0);
  for (const py::handle item : out) {
    const auto& device = self->fetch_device != 0 ? self->network->device : host;
    read.push_back(item.is_none()
                       ? py::object()
                       : BorrowMemory(item.ptr(), device, Concat("out[", read.size(), "]")));
  }
  return read;
}

// Handles a call with options, or with the feeds in one dict. `out` and `fetch_as` are options
// unless a feed has that name; with a dict of feeds, they are always options.
PyObject* CallUnusual(NetworkObject* self, PyObject* const* args, Py_ssize_t n_positional,
                      const py::tuple& names) {
  const auto feed_names = py::reinterpret_borrow<py::tuple>(self->feed_names);
  const bool is_dict = IsDict(args, n_positional);
  py::dict named;
  if (is_dict) named = py::reinterpret_borrow<py::dict>(args[0]).attr("copy")();
  CallOptions options{FetchAs(self)};
  py::object out = py::none();
  for (size_t i = 0; i < names.size(); ++i) {
    const py::object name = names[i];
    PyObject* value = args[static_cast<size_t>(n_positional) + i];
    const bool may_be_option = is_dict || !feed_names.contains(name);
    if (may_be_option && name.equal(py::str("out"))) {
      out = py::reinterpret_borrow<py::object>(value);
    } else if (may_be_option && name.equal(py::str("fetch_as"))) {
      if (value != Py_None) options.fetch_as = value;
    } else if (named.contains(name)) {
      Throw(ErrorKind::kFeed, "feed: ", py::repr(name).cast<std::string>(),
            " must be given once, got it in the dict and by name");
    } else {
      named[name] = py::handle(value);
    }
  }
  if (options.fetch_as != nullptr && !PyCallable_Check(options.fetch_as)) {
    Throw(ErrorKind::kFeed, "fetch_as: must be callable, as torch.from_dlpack is, got ",
          py::repr(options.fetch_as).cast<std::string>());
  }
  const Py_ssize_t n_first = is_dict ? 0 : n_positional;
  std::vector<PyObject*> feeds(args, args + n_first);
  for (size_t i = feeds.size(); i < feed_names.size(); ++i) {
    if (!named.contains(feed_names[i])) break;
    feeds.push_back(PyDict_GetItem(named.ptr(), feed_names[i].ptr()));
  }
  if (feeds.size() != feed_names.size() ||
      static_cast<size_t>(n_first) + named.size() != feeds.size()) {
    RefuseNames(self, n_first, py::tuple(named));
  }
  if (out.is_none()) return CallWith(self, feeds.data(), feeds.size(), {}, options);
  if (!PyList_Check(out.ptr()) && !PyTuple_Check(out.ptr())) {
    Throw(ErrorKind::kFeed, "out: must be a list with an array or None for each fetch, got ",
          Py_TYPE(out.ptr())->tp_name, "; write out=[array]");
  }
  const py::tuple given(out);
  const std::vector<py::object> read = ReadOut(self, given);
  options.out = &read;
  const auto results =
      py::reinterpret_steal<py::list>(CallWith(self, feeds.data(), feeds.size(), {}, options));
  if (!results) throw py::error_already_set();
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i]) results[i] = given[i];
  }
  return py::object(results).release().ptr();
}

// Whether the variables of the scope still fit the plan.
bool FitsScope(NetworkObject* self, const PlanEntry& entry) {
  const std::shared_ptr<Scope>& scope = self->network->scope;
  const Lease lease(*entry.plan, scope.get());
  BindProblem problem;
  return lease->IsBound(scope.get()) || lease->Bind(scope, &problem);
}

}  // namespace

PyObject* SourceOf(NetworkObject* self) {
  if (self->source == nullptr) {
    Throw(ErrorKind::kProgram, "compiled network: the garbage collector has cleared it");
  }
  return self->source;
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
    if (__builtin_expect(OrderFeeds(self, args, n_positional, names, feeds), 1)) {
      const CallOptions options{FetchAs(self)};
      const EntryPtr entry = FindLast(self, feeds, n_feeds);
      if (entry) {
        BindProblem problem;
        PyObject* result = RunPlan(RequestOf(self, *entry, feeds, options), &problem);
        if (result != nullptr || PyErr_Occurred()) return Deliver(*entry, result, options);
      }
      if (!IsDict(args, n_positional)) return CallWith(self, feeds, n_feeds, entry, options);
    }
    return CallUnusual(self, args, n_positional,
                       names == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(names));
  } catch (...) {
    return SetPythonError();
  }
}

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

}  // namespace opwright
