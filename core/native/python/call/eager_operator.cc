// EagerOperator: one operator on arrays, at once, with no Python between the call and the plan.
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/call/eager_table.h"
#include "python/call/run_frame.h"

#include <structmember.h>  // needs Python.h before it

namespace opwright {

namespace {

struct OperatorObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  EagerTable* table;
  PyObject* slow;
  PyObject* as_given;  // makes a result the kind of array that was given; null: NumPy's stay
  EagerSignature signature;
  ResultForm form;
};

OperatorObject* OperatorOf(PyObject* object) { return reinterpret_cast<OperatorObject*>(object); }

PyObject* RunArrays(const OperatorObject* self, const std::shared_ptr<const Plan>& plan,
                    PyObject* const* arrays, bool fetch_device) {
  // A single operator has no variables, hence no scope.
  static const std::shared_ptr<Scope> no_scope;
  return RunPlanOrRaise({plan, no_scope, arrays, nullptr, self->form, fetch_device});
}

// The result as the kind of array that the first one of another library is.
PyObject* ResultAsGiven(const OperatorObject* self, const EagerInputs& inputs, PyObject* result) {
  if (result == nullptr || inputs.like() == nullptr) return result;
  PyObject* given =
      inputs.like_kind().api != nullptr
          ? GiveToLibrary(inputs.like_kind(), result)
          : PyObject_CallFunctionObjArgs(self->as_given, result, inputs.like(), nullptr);
  Py_DECREF(result);
  return given;
}

bool CanGiveAsGiven(const OperatorObject* self, const EagerInputs& inputs) {
  return inputs.like() == nullptr || inputs.like_kind().api != nullptr || self->as_given != nullptr;
}

PyObject* CallOperator(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  OperatorObject* self = OperatorOf(callable);
  const auto n_args = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (names == nullptr) {
    EagerInputs inputs;
    if (ReadInputs(self->signature, args, n_args, &inputs) && CanGiveAsGiven(self, inputs)) {
      const auto entry = self->table->Find(self->signature, args, n_args, inputs);
      if (entry)
        return ResultAsGiven(self, inputs, RunArrays(self, entry->plan, inputs.data(), false));
    }
  }
  if (self->slow == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "eager operator: the garbage collector has taken it apart");
    return nullptr;
  }
  return PyObject_Vectorcall(self->slow, args, n_args, names);
}

PyObject* NewOperator(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"n_inputs",  "duplicable", "slow",
                                   "n_outputs", "as_given",   nullptr};
  Py_ssize_t n_inputs = 0;
  unsigned long long duplicable = 0;
  PyObject* slow = nullptr;
  Py_ssize_t n_outputs = 1;
  PyObject* as_given = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nKO|nO", const_cast<char**>(keywords), &n_inputs,
                                   &duplicable, &slow, &n_outputs, &as_given)) {
    return nullptr;
  }
  if (n_inputs < 0 || n_inputs > 64) {
    PyErr_Format(PyExc_ValueError, "n_inputs must be in [0, 64], got %zd", n_inputs);
    return nullptr;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  OperatorObject* self = OperatorOf(object);
  self->vectorcall = CallOperator;
  self->slow = Py_NewRef(slow);
  self->as_given = Py_XNewRef(as_given);
  self->signature = {static_cast<size_t>(n_inputs), duplicable};
  self->form = n_outputs == 1 ? ResultForm::kFirst : ResultForm::kTuple;
  self->table = new (std::nothrow) EagerTable();
  if (self->table == nullptr) {
    Py_DECREF(object);
    return PyErr_NoMemory();
  }
  return object;
}

PyObject* InsertPlan(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  OperatorObject* self = OperatorOf(object);
  if (n != 2 || !PyTuple_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "insert takes the tuple of arguments and a plan");
    return nullptr;
  }
  try {
    const auto plan = py::handle(args[1]).cast<PlanHandle&>().plan;
    CheckRunnable(*plan);
    PyObject* const* given = &PyTuple_GET_ITEM(args[0], 0);
    const auto n_given = static_cast<size_t>(PyTuple_GET_SIZE(args[0]));
    EagerInputs inputs;
    if (!ReadInputs(self->signature, given, n_given, &inputs)) {
      Throw(ErrorKind::kFeed, "insert: the inputs must be ready as they are; call run instead");
    }
    if (inputs.size() != plan->feeds.size()) {
      Throw(ErrorKind::kFeed, "insert: plan '", plan->name, "' takes ", plan->feeds.size(),
            " arrays, got ", inputs.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) CheckFeed(*plan, i, inputs[i]);
    self->table->Insert(self->signature, given, n_given, inputs, plan);
    return Py_NewRef(Py_None);
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* FindPlan(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  OperatorObject* self = OperatorOf(object);
  EagerInputs inputs;
  const auto n_args = static_cast<size_t>(n);
  if (!ReadInputs(self->signature, args, n_args, &inputs)) return Py_NewRef(Py_None);
  try {
    const auto entry = self->table->Find(self->signature, args, n_args, inputs);
    if (!entry) return Py_NewRef(Py_None);
    return py::cast(PlanHandle{entry->plan}).release().ptr();
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* RunGivenPlan(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 && n != 3) {
    PyErr_SetString(PyExc_TypeError, "run takes a plan, a sequence of arrays and fetch_device");
    return nullptr;
  }
  const int fetch_device = n == 3 ? PyObject_IsTrue(args[2]) : 0;
  if (fetch_device < 0) return nullptr;
  try {
    const auto plan = py::handle(args[0]).cast<PlanHandle&>().plan;
    CheckRunnable(*plan);
    const auto arrays = py::tuple(py::reinterpret_borrow<py::object>(args[1]));
    if (arrays.size() != plan->feeds.size()) {
      Throw(ErrorKind::kFeed, "run: plan '", plan->name, "' takes ", plan->feeds.size(),
            " arrays, got ", arrays.size());
    }
    for (size_t i = 0; i < arrays.size(); ++i) {
      CheckFeed(*plan, i, PyTuple_GET_ITEM(arrays.ptr(), static_cast<Py_ssize_t>(i)));
    }
    return RunArrays(OperatorOf(object), plan, &PyTuple_GET_ITEM(arrays.ptr(), 0),
                     fetch_device != 0);
  } catch (...) {
    return SetPythonError();
  }
}

int TraverseOperator(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(OperatorOf(object)->slow);
  Py_VISIT(OperatorOf(object)->as_given);
  return 0;
}

int ClearOperator(PyObject* object) {
  OperatorObject* self = OperatorOf(object);
  if (self->table != nullptr) self->table->Clear();
  Py_CLEAR(self->slow);
  Py_CLEAR(self->as_given);
  return 0;
}

void DeallocateOperator(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  delete OperatorOf(object)->table;
  Py_XDECREF(OperatorOf(object)->slow);
  Py_XDECREF(OperatorOf(object)->as_given);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* ClearOperatorPlans(PyObject* object, PyObject*) {
  OperatorOf(object)->table->Clear();
  return Py_NewRef(Py_None);
}

PyObject* CountOperatorPlans(PyObject* object, void*) {
  return PyLong_FromSize_t(OperatorOf(object)->table->size());
}

PyMethodDef operator_methods[] = {
    {"insert", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(InsertPlan)), METH_FASTCALL,
     "Remember a plan for the metas and attributes of these arguments."},
    {"find", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(FindPlan)), METH_FASTCALL,
     "The plan that is kept for these arguments, or None."},
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(RunGivenPlan)), METH_FASTCALL,
     "Run a plan on arrays that are ready as they are."},
    {"clear", ClearOperatorPlans, METH_NOARGS, "Forget the plans; those that run go on."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef operator_properties[] = {
    {"n_plans", CountOperatorPlans, nullptr, "How many plans are kept.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot operator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(NewOperator)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(TraverseOperator)},
    {Py_tp_clear, reinterpret_cast<void*>(ClearOperator)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateOperator)},
    {Py_tp_methods, operator_methods},
    {Py_tp_members, operator_members},
    {Py_tp_getset, operator_properties},
    {Py_tp_doc, const_cast<char*>("One operator on arrays: f(*inputs, *attributes).")},
    {0, nullptr}};

PyType_Spec operator_spec = {"opwright._runtime.EagerOperator", sizeof(OperatorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             operator_slots};

}  // namespace

void BindEagerOperator(py::module_& module) {
  PyObject* type = PyType_FromSpec(&operator_spec);
  if (type == nullptr) throw py::error_already_set();
  module.add_object("EagerOperator", py::reinterpret_steal<py::object>(type));
}

}  // namespace opwright
