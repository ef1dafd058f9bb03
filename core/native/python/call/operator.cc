// EagerOperator: runs one operator on arrays, without Python code between the call and the plan.
#include <cstring>

#include "python/bind/c_type.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/plan_table.h"
#include "python/call/run_frame.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

// The kinds of arguments of an operator.
struct Signature {
  size_t n_inputs;
  uint64_t duplicable;  // bit i is set if input i is a list
};

struct OperatorObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* plans;     // a Plans
  PlanSet* set;        // the set of `plans`
  PyObject* slow;      // handles values that are not ready
  PyObject* lower;     // makes the plan for arguments that are ready
  PyObject* as_given;  // converts a result to the arguments' kind of array; null keeps NumPy arrays
  std::shared_ptr<const Epoch>* epoch;
  Signature signature;
  ResultForm form;
  bool detach;  // whether arrays that require a gradient are read as their detach()
};

OperatorObject* OperatorOf(PyObject* object) { return reinterpret_cast<OperatorObject*>(object); }

bool IsSequence(PyObject* object) {
  return PyTuple_CheckExact(object) || PyList_CheckExact(object);
}

// Converts lists to tuples, so a later change of the list has no effect. Returns null without
// an error for anything but a plain attribute.
PyObject* Freeze(PyObject* attribute) {
  if (attribute == Py_None || PyBool_Check(attribute) || PyLong_CheckExact(attribute) ||
      PyFloat_CheckExact(attribute) || PyUnicode_CheckExact(attribute)) {
    return Py_NewRef(attribute);
  }
  if (!IsSequence(attribute)) return nullptr;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(attribute);
  PyObject* frozen = PyTuple_New(n);
  for (Py_ssize_t i = 0; frozen != nullptr && i < n; ++i) {
    PyObject* item = Freeze(PySequence_Fast_GET_ITEM(attribute, i));
    if (item == nullptr) {
      Py_DECREF(frozen);
      return nullptr;
    }
    PyTuple_SET_ITEM(frozen, i, item);
  }
  return frozen;
}

// Whether two attributes are equal in value and type at every level of nesting; `frozen` is a
// result of Freeze. Compares only exact builtin types, which does not run foreign code.
bool SameAttribute(PyObject* frozen, PyObject* given) {
  if (frozen == given) return true;
  if (PyTuple_CheckExact(frozen)) {
    if (!IsSequence(given)) return false;
    const Py_ssize_t n = PyTuple_GET_SIZE(frozen);
    if (PySequence_Fast_GET_SIZE(given) != n) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(given, i);
      if (!SameAttribute(PyTuple_GET_ITEM(frozen, i), item)) return false;
    }
    return true;
  }
  if (Py_TYPE(frozen) != Py_TYPE(given)) return false;
  if (PyFloat_CheckExact(frozen)) {
    // Compares bits, because 0.0 and -0.0 compare equal but are different attributes, and NaN must
    // equal itself.
    const double a = PyFloat_AS_DOUBLE(frozen);
    const double b = PyFloat_AS_DOUBLE(given);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    return std::memcmp(&a, &b, sizeof(a)) == 0;
  }
  if (PyLong_CheckExact(frozen) || PyUnicode_CheckExact(frozen)) {
    return PyObject_RichCompareBool(frozen, given, Py_EQ) == 1;
  }
  return false;
}

int32_t CountOf(PyObject* input) {
  if (input == Py_None) return -1;
  return IsSequence(input) ? static_cast<int32_t>(PySequence_Fast_GET_SIZE(input)) : -2;
}

bool IsDuplicable(const Signature& signature, size_t i) {
  return i < 64 && ((signature.duplicable >> i) & 1) != 0;
}

// Reads the inputs with `read`; returns false if an input cannot be read.
template <typename ReadOne>
bool ReadInputs(const Signature& signature, PyObject* const* args, size_t n_args,
                const ReadOne& read) {
  if (n_args < signature.n_inputs) return false;
  for (size_t i = 0; i < signature.n_inputs; ++i) {
    PyObject* input = args[i];
    if (input == Py_None) continue;
    if (!IsDuplicable(signature, i)) {
      if (!read(input)) return false;
      continue;
    }
    if (!IsSequence(input)) return false;
    // When a library exports an array, it may run code that changes the list.
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(input); ++j) {
      const auto item = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(input, j));
      if (!read(item.ptr())) return false;
    }
  }
  return true;
}

bool SameAttributes(const PlanKey& key, PyObject* const* attributes, size_t n) {
  if (static_cast<size_t>(PyTuple_GET_SIZE(key.rest.ptr())) != n) return false;
  for (size_t i = 0; i < n; ++i) {
    PyObject* frozen = PyTuple_GET_ITEM(key.rest.ptr(), static_cast<Py_ssize_t>(i));
    if (!SameAttribute(frozen, attributes[i])) return false;
  }
  return true;
}

bool Matches(const PlanEntry& entry, const Signature& signature, PyObject* const* args,
             size_t n_args, const Intake& intake) {
  if (!intake.Match(entry.key.metas)) return false;
  for (size_t i = 0; i < signature.n_inputs; ++i) {
    if (entry.key.counts[i] != CountOf(args[i])) return false;
  }
  return SameAttributes(entry.key, args + signature.n_inputs, n_args - signature.n_inputs);
}

// Returns a tuple of immutable copies, or null if an attribute is not plain.
py::object FreezeAll(PyObject* const* attributes, size_t n) {
  py::tuple frozen(n);
  for (size_t i = 0; i < n; ++i) {
    PyObject* item = Freeze(attributes[i]);
    if (item == nullptr && PyErr_Occurred()) throw py::error_already_set();
    if (item == nullptr) return {};
    PyTuple_SET_ITEM(frozen.ptr(), static_cast<Py_ssize_t>(i), item);
  }
  return std::move(frozen);
}

// Returns the plan from `lower` for ready arguments; it is cached if their attributes can be
// compared.
EntryPtr Lower(OperatorObject* self, PyObject* const* args, size_t n_args, const Intake& intake) {
  if (self->lower == nullptr) {
    Throw(ErrorKind::kProgram, "eager operator: the garbage collector has cleared it");
  }
  auto entry = EntryPtr::Make();
  entry->epoch = *self->epoch;
  entry->made_at = entry->epoch->now();
  py::tuple values(intake.size());
  for (size_t i = 0; i < intake.size(); ++i) {
    values[i] = py::reinterpret_borrow<py::object>(intake[i]);
  }
  py::list counts;
  for (size_t i = 0; i < self->signature.n_inputs; ++i) {
    entry->key.counts.push_back(CountOf(args[i]));
    counts.append(py::int_(entry->key.counts.back() == -2 ? 1 : std::max(entry->key.counts[i], 0)));
  }
  const size_t n_attributes = n_args - self->signature.n_inputs;
  py::tuple attributes(n_attributes);
  for (size_t i = 0; i < n_attributes; ++i) {
    attributes[i] = py::reinterpret_borrow<py::object>(args[self->signature.n_inputs + i]);
  }
  entry->plan = py::handle(self->lower)(values, counts, attributes).cast<PlanHandle&>().plan;
  CheckRunnable(*entry->plan);
  if (intake.size() != entry->plan->feeds.size()) {
    Throw(ErrorKind::kFeed, "lower: plan '", entry->plan->name, "' takes ",
          entry->plan->feeds.size(), " arrays, got ", intake.size());
  }
  for (size_t i = 0; i < intake.size(); ++i) CheckFeed(*entry->plan, i, intake[i]);
  entry->plan->BoundIdleMemory();
  entry->key.rest = FreezeAll(args + self->signature.n_inputs, n_attributes);
  if (!entry->key.rest) return entry;
  for (size_t i = 0; i < intake.size(); ++i) entry->key.metas.push_back(FeedMeta::Of(intake[i]));
  entry->hash = intake.Hash();
  entry->bytes = entry->plan->held_bytes;
  self->set->Add(entry, nullptr);
  return entry;
}

PyObject* RunEntry(const OperatorObject* self, const PlanEntry& entry, PyObject* const* values) {
  // A single operator has no variables and therefore no scope.
  static const std::shared_ptr<Scope> no_scope;
  const bool fetch_device = !entry.plan->devices[0].device->is_host();
  return RunPlanOrRaise({entry.plan, no_scope, values, nullptr, self->form, fetch_device});
}

// Returns the plan that ran last if it fits and every input is a single ready array, which is
// sufficient for the usual call.
EntryPtr FindLast(const OperatorObject* self, PyObject* const* args, size_t n_args) {
  const EntryPtr& last = self->set->last();
  const size_t n_inputs = self->signature.n_inputs;
  if (!last || !last->IsCurrent() || n_args < n_inputs || self->signature.duplicable != 0)
    return {};
  const PlanKey& key = last->key;
  if (key.metas.size() != n_inputs) return {};
  for (size_t i = 0; i < n_inputs; ++i) {
    if (!IsReady(args[i]) || !key.metas[i].Matches(args[i])) return {};
  }
  if (!SameAttributes(key, args + n_inputs, n_args - n_inputs)) return {};
  return self->set->UseLast();
}

PyObject* Run(OperatorObject* self, PyObject* const* args, size_t n_args, const Intake& intake) {
  auto entry = self->set->Find(
      [&](const PlanEntry& known) { return Matches(known, self->signature, args, n_args, intake); },
      [&] { return intake.Hash(); });
  if (!entry) entry = Lower(self, args, n_args, intake);
  return RunEntry(self, *entry, intake.data());
}

// Converts the result to the array type of the first argument that is not NumPy's.
PyObject* ResultAsGiven(const OperatorObject* self, const Intake& intake, PyObject* result) {
  if (result == nullptr || intake.like() == nullptr) return result;
  PyObject* given =
      intake.like_kind().api != nullptr
          ? GiveToLibrary(intake.like_kind(), result)
          : PyObject_CallFunctionObjArgs(self->as_given, result, intake.like(), nullptr);
  Py_DECREF(result);
  return given;
}

bool CanGiveAsGiven(const OperatorObject* self, const Intake& intake) {
  return intake.like() == nullptr || intake.like_kind().api != nullptr || self->as_given != nullptr;
}

// Reads the inputs; `slow` reads the inputs that are not ready.
__attribute__((noinline)) PyObject* CallWith(OperatorObject* self, PyObject* const* args,
                                             size_t n_args, PyObject* names) {
  if (names == nullptr) {
    Intake intake;
    const Detaching detaching(self->detach);
    static const std::shared_ptr<Device> host;
    // If Python must read one argument, such as a number, it reads all, so none is read twice.
    const auto may_read = [](PyObject* value) { return Intake::MayRead(value); };
    const auto read = [&](PyObject* value) { return intake.Read(value, host); };
    if (ReadInputs(self->signature, args, n_args, may_read) &&
        ReadInputs(self->signature, args, n_args, read) && CanGiveAsGiven(self, intake)) {
      return ResultAsGiven(self, intake, Run(self, args, n_args, intake));
    }
  }
  if (self->slow == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "eager operator: the garbage collector has cleared it");
    return nullptr;
  }
  return PyObject_Vectorcall(self->slow, args, n_args, names);
}

PyObject* CallOperator(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  OperatorObject* self = OperatorOf(callable);
  const auto n_args = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  try {
    if (names == nullptr) {
      const EntryPtr entry = FindLast(self, args, n_args);
      if (entry) return RunEntry(self, *entry, args);
    }
    return CallWith(self, args, n_args, names);
  } catch (...) {
    return SetPythonError();
  }
}

// Calls the operator with arguments that `slow` has made ready: arrays, or tensors on one device.
PyObject* CallReady(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  OperatorObject* self = OperatorOf(object);
  try {
    Intake intake;
    const auto read = [&](PyObject* value) { return intake.Add(Py_NewRef(value)); };
    if (!ReadInputs(self->signature, args, static_cast<size_t>(n), read)) {
      Throw(ErrorKind::kFeed, "call_ready: the inputs must be arrays that are ready, or Tensors");
    }
    return Run(self, args, static_cast<size_t>(n), intake);
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* NewOperator(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"n_inputs", "duplicable", "slow",  "lower",  "n_outputs",
                                   "as_given", "epoch",      "label", "detach", nullptr};
  Py_ssize_t n_inputs = 0;
  unsigned long long duplicable = 0;
  PyObject* slow = nullptr;
  PyObject* lower = nullptr;
  Py_ssize_t n_outputs = 1;
  PyObject* as_given = nullptr;
  PyObject* epoch = Py_None;
  const char* label = "operator";
  int detach = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nKOO|nOOsp", const_cast<char**>(keywords),
                                   &n_inputs, &duplicable, &slow, &lower, &n_outputs, &as_given,
                                   &epoch, &label, &detach)) {
    return nullptr;
  }
  if (n_inputs < 0 || n_inputs > 64) {
    PyErr_Format(PyExc_ValueError, "n_inputs must be in [0, 64], got %zd", n_inputs);
    return nullptr;
  }
  try {
    auto held = std::make_unique<std::shared_ptr<const Epoch>>(std::make_shared<Epoch>());
    if (epoch != Py_None) *held = py::handle(epoch).cast<std::shared_ptr<Epoch>>();
    const auto plans = py::reinterpret_steal<py::object>(NewPlans(label, false));
    if (!plans) throw py::error_already_set();
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    OperatorObject* self = OperatorOf(object);
    self->vectorcall = CallOperator;
    self->plans = Py_NewRef(plans.ptr());
    self->set = &PlansOf(self->plans);
    self->slow = Py_NewRef(slow);
    self->lower = Py_NewRef(lower);
    self->as_given = Py_XNewRef(as_given);
    self->epoch = held.release();
    self->signature = {static_cast<size_t>(n_inputs), duplicable};
    self->form = n_outputs == 1 ? ResultForm::kFirst : ResultForm::kTuple;
    self->detach = detach != 0;
    return object;
  } catch (...) {
    return SetPythonError();
  }
}

using OperatorReferences = References<OperatorObject, &OperatorObject::plans, &OperatorObject::slow,
                                      &OperatorObject::lower, &OperatorObject::as_given>;

int ClearOperator(PyObject* object) {
  OperatorObject* self = OperatorOf(object);
  if (self->plans != nullptr) PlansOf(self->plans).Clear();
  return References<OperatorObject, &OperatorObject::slow, &OperatorObject::lower,
                    &OperatorObject::as_given>::Clear(object);
}

void DeallocateOperator(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  OperatorReferences::Clear(object);
  delete OperatorOf(object)->epoch;
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef operator_methods[] = {{"call_ready", AsMethod(CallReady), METH_FASTCALL,
                                   "Run the operator on arrays that are ready, or on Tensors."},
                                  {nullptr, nullptr, 0, nullptr}};

PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, vectorcall), READONLY, nullptr},
    {"plans", T_OBJECT_EX, offsetof(OperatorObject, plans), READONLY, "The plans that are kept."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot operator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewOperator)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(OperatorReferences::Visit)},
    {Py_tp_clear, reinterpret_cast<void*>(ClearOperator)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateOperator)},
    {Py_tp_methods, operator_methods},
    {Py_tp_members, operator_members},
    {Py_tp_doc, const_cast<char*>("One operator on arrays: f(*inputs, *attributes).")},
    {0, nullptr}};
PyType_Spec operator_spec = {"opwright._runtime.EagerOperator", sizeof(OperatorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             operator_slots};

}  // namespace

void BindEagerOperator(py::module_& module) { AddType(module, "EagerOperator", &operator_spec); }

}  // namespace opwright
