#include "python/plugins/python_kernel.h"

#include <algorithm>

#include "python/arrays/views.h"
#include "python/bind/errors.h"
#include "python/plugins/resizer.h"
#include "python/plugins/stream_scope.h"
#include "runtime/library/host.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {

// The state of one Python step of an instance. The homes of views point into `arguments` and
// `lists`, which never grow after Bind.
class Binding {
 public:
  Binding(const PythonKernel& kernel, const ow_call& call)
      : kernel_(kernel),
        call_(call),
        handle_(*static_cast<const StepHandle*>(call.run_handle)),
        instance_(handle_.instance),
        device_(*instance_->plan().devices[handle_.step->device].device) {}
  ~Binding();
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  bool Build() noexcept;  // on failure, returns false and sets an error
  int32_t Run() noexcept;
  int32_t Pack(uint32_t arg) noexcept;

 private:
  bool FillSlot(uint32_t slot, PyObject** home);
  bool FillArg(uint32_t arg, PyObject** home);
  PyObject* Call() noexcept;
  PyObject* CallOnStream() noexcept;
  PyObject* CallBound() noexcept;
  bool CheckResult(PyObject* result) const noexcept;
  bool Renew() noexcept;
  void SetResizers(const ow_call* call) noexcept {
    for (PyObject* resizer : resizers_) SetResizerCall(resizer, call);
  }

  const PythonKernel& kernel_;
  const ow_call& call_;
  const StepHandle& handle_;
  Instance* instance_;
  const Device& device_;
  std::vector<PyObject*> arguments_;  // owned; the first item is reserved for vectorcall
  std::vector<PyObject*> lists_;      // tuples of duplicable slots, borrowed from arguments_
  std::vector<View> views_;
  std::vector<size_t> moving_;
  std::vector<PyObject*> resizers_;                      // borrowed
  std::vector<std::pair<uint32_t, PyObject**>> packed_;  // argument, home
  PyObject* bound_ = nullptr;                            // owned; the result of kernel.bind
};

Binding::~Binding() {
  SetResizers(nullptr);
  Py_XDECREF(bound_);
  for (PyObject* argument : arguments_) Py_XDECREF(argument);
}

bool Binding::FillArg(uint32_t arg, PyObject** home) {
  const Plan& plan = instance_->plan();
  const uint32_t value = instance_->ValueOf(*handle_.step, arg);
  if (plan.IsDynamic(value)) {
    *home = NewResizer(arg);
    if (*home != nullptr) resizers_.push_back(*home);
    return *home != nullptr;
  }
  for (const auto& [packed, function] : kernel_.packs) {
    if (packed != arg) continue;
    *home = Py_NewRef(Py_None);  // replaced by Pack before the first run
    packed_.emplace_back(arg, home);
    return true;
  }
  View view;
  view.home = home;
  view.tensor = call_.args[arg];
  view.value = value;
  view.read_only = arg < call_.slot_begin[handle_.step->n_inputs];
  view.moves = plan.values[value].kind == ValueKind::kExternal;
  if (!MakeView(instance_, &view, false)) return false;
  if (view.moves) moving_.push_back(views_.size());
  views_.push_back(view);
  return true;
}

bool Binding::FillSlot(uint32_t slot, PyObject** home) {
  const uint32_t begin = call_.slot_begin[slot];
  const uint32_t end = call_.slot_begin[slot + 1];
  if (!kernel_.IsDuplicable(slot)) {
    if (begin != end) return FillArg(begin, home);
    *home = Py_NewRef(Py_None);
    return true;
  }
  PyObject* list = PyTuple_New(end - begin);
  *home = list;
  if (list == nullptr) return false;
  lists_.push_back(list);
  for (uint32_t arg = begin; arg < end; ++arg) {
    if (!FillArg(arg, &PyTuple_GET_ITEM(list, arg - begin))) return false;
  }
  // The tuple's items change in place while it is not shared, so the collector must not track it.
  if (PyObject_GC_IsTracked(list)) PyObject_GC_UnTrack(list);
  return true;
}

bool Binding::Build() noexcept {
  const uint32_t n_args = call_.slot_begin[call_.n_slots];
  try {
    views_.reserve(n_args);
    resizers_.reserve(n_args);
    arguments_.assign(
        1 + kernel_.positional.size() + kernel_.keywords.size() + kernel_.constants.size(),
        nullptr);
    PyObject** home = arguments_.data() + 1;
    for (const auto* slots : {&kernel_.positional, &kernel_.keywords}) {
      for (const uint32_t slot : *slots) {
        if (slot >= call_.n_slots) {
          PyErr_Format(PyExc_IndexError, "the kernel was prepared for slot %u, the step has %u",
                       slot, call_.n_slots);
          return false;
        }
        if (!FillSlot(slot, home++)) return false;
      }
    }
    for (const py::object& constant : kernel_.constants) *home++ = Py_NewRef(constant.ptr());
    return true;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return false;
  }
}

PyObject* Binding::Call() noexcept {
  for (const size_t i : moving_) {
    if (!Follow(instance_, &views_[i])) return nullptr;
  }
  const size_t n_positional = kernel_.positional.size();
  PyObject* names = arguments_.size() == n_positional + 1 ? nullptr : kernel_.names.ptr();
  return PyObject_Vectorcall(kernel_.function.ptr(), arguments_.data() + 1,
                             n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
}

PyObject* Binding::CallOnStream() noexcept {
  StreamScope scope;
  if (!scope.Enter(device_, call_.stream)) return nullptr;
  PyObject* result = kernel_.bind ? CallBound() : Call();
  if (!scope.Leave()) Py_CLEAR(result);
  return result;
}

// The bound object refers to the arrays, so the arrays own their memory, and the kernel is rebound
// when an array has moved. The memory of a referenced array cannot be reused meanwhile, so equal
// addresses mean the same memory.
PyObject* Binding::CallBound() noexcept {
  bool moved = bound_ == nullptr;
  for (const size_t i : moving_) moved = moved || views_[i].data != views_[i].tensor->data;
  if (moved) {
    Py_CLEAR(bound_);
    for (View& view : views_) {
      if (!MakeView(instance_, &view, true)) return nullptr;
    }
    PyObject* bind = PyObject_GetAttrString(kernel_.function.ptr(), "bind");
    if (bind == nullptr) return nullptr;
    const size_t n_positional = kernel_.positional.size();
    PyObject* names = arguments_.size() == n_positional + 1 ? nullptr : kernel_.names.ptr();
    bound_ = PyObject_Vectorcall(bind, arguments_.data() + 1,
                                 n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
    Py_DECREF(bind);
    if (bound_ == nullptr) return nullptr;
  }
  return PyObject_CallNoArgs(bound_);
}

// Rejects a kernel that returns a new array, since this result would never be read.
bool Binding::CheckResult(PyObject* result) const noexcept {
  // The array that a Resizer has returned is an output as well.
  if (result == Py_None || !PyArray_Check(result) || !resizers_.empty()) return true;
  for (const View& view : views_) {
    if (result == reinterpret_cast<PyObject*>(view.array)) return true;
  }
  PyErr_SetString(PyExc_TypeError,
                  "a kernel must write into its outputs, got a new array as its result; "
                  "write out[...] = result");
  return false;
}

// Arrays that the kernel stored or altered are released and replaced by new arrays.
bool Binding::Renew() noexcept {
  bool done = true;
  for (PyObject*& list : lists_) {
    if (Py_REFCNT(list) == 1) continue;
    PyObject* fresh = PyTuple_New(PyTuple_GET_SIZE(list));
    if (fresh == nullptr) return false;
    if (PyObject_GC_IsTracked(fresh)) PyObject_GC_UnTrack(fresh);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
      PyTuple_SET_ITEM(fresh, i, Py_NewRef(PyTuple_GET_ITEM(list, i)));
      for (View& view : views_) {
        if (view.home == &PyTuple_GET_ITEM(list, i)) view.home = &PyTuple_GET_ITEM(fresh, i);
      }
      for (auto& packed : packed_) {
        if (packed.second == &PyTuple_GET_ITEM(list, i)) {
          packed.second = &PyTuple_GET_ITEM(fresh, i);
        }
      }
    }
    for (PyObject*& argument : arguments_) {
      if (argument == list) argument = fresh;
    }
    Py_DECREF(list);
    list = fresh;
  }
  for (View& view : views_) {
    if (IsUntouched(view)) continue;
    done = GiveOwner(instance_, &view) && MakeView(instance_, &view, false) && done;
  }
  return done;
}

int32_t Binding::Run() noexcept {
  if (!resizers_.empty()) SetResizers(&call_);
  PyObject* result = CallOnStream();
  if (!resizers_.empty()) SetResizers(nullptr);
  const bool good = result != nullptr && CheckResult(result);
  Py_XDECREF(result);
  bool renew = false;
  if (!kernel_.bind) {
    for (const PyObject* list : lists_) renew = renew || Py_REFCNT(list) != 1;
    for (const View& view : views_) renew = renew || !IsUntouched(view);
  }
  if (__builtin_expect(renew, 0)) {
    PyObject* error = TakeError();
    const bool renewed = Renew();
    if (error != nullptr) {
      PyErr_Clear();
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
      Py_DECREF(error);
    }
    if (!renewed) return OW_ERROR;
  }
  // During a kernel that is written in C, Python does not handle Ctrl-C.
  return good && PyErr_CheckSignals() == 0 ? OW_OK : OW_ERROR;
}

int32_t Binding::Pack(uint32_t arg) noexcept {
  View view;
  PyObject* source = nullptr;
  view.home = &source;
  view.value = instance_->ValueOf(*handle_.step, arg);
  view.tensor = &instance_->tensor(view.value);
  view.read_only = true;
  if (!MakeView(instance_, &view, true)) return OW_ERROR;
  PyObject* made = nullptr;
  StreamScope scope;
  if (scope.Enter(device_, call_.stream)) {
    for (const auto& [packed, function] : kernel_.packs) {
      if (packed == arg) made = PyObject_CallOneArg(function.ptr(), source);
    }
    if (!scope.Leave()) Py_CLEAR(made);
  }
  Py_DECREF(source);
  if (made == nullptr) return OW_ERROR;
  for (const auto& [packed, home] : packed_) {
    if (packed != arg) continue;
    PyObject* former = *home;
    *home = Py_NewRef(made);
    Py_DECREF(former);
  }
  Py_DECREF(made);
  return OW_OK;
}

int32_t RunPython(const ow_call* call) { return static_cast<Binding*>(call->bound)->Run(); }

int32_t BindPython(const ow_call* call, void** bound) {
  const py::gil_scoped_acquire gil;
  const auto* kernel = static_cast<const PythonKernel*>(call->prepared);
  auto binding = std::make_unique<Binding>(*kernel, *call);
  if (!binding->Build()) {
    WriteMessage(call->message, call->message_bytes, "the arguments could not be created");
    return OW_ERROR;
  }
  *bound = binding.release();
  return OW_OK;
}

void UnbindPython(void*, void* bound) {
  if (!Py_IsInitialized()) return;  // references can no longer be released
  const py::gil_scoped_acquire gil;
  const py::error_scope scope;
  delete static_cast<Binding*>(bound);
}

int32_t PackPython(const ow_call* call, uint32_t arg, const DLTensor*, void*) {
  const py::gil_scoped_acquire gil;
  return static_cast<Binding*>(call->bound)->Pack(arg);
}

void ReleasePython(void* prepared) {
  if (!Py_IsInitialized()) return;
  const py::gil_scoped_acquire gil;
  const py::error_scope scope;
  delete static_cast<PythonKernel*>(prepared);
}

const ow_kernel& Table() {
  static const ow_kernel table = [] {
    ow_kernel made{};
    made.size = sizeof(made);
    made.op_type = "python kernel";
    made.flags = OW_KERNEL_NEEDS_GIL | OW_KERNEL_STRIDED;
    made.release = ReleasePython;
    made.bind = BindPython;
    made.unbind = UnbindPython;
    made.pack = PackPython;
    made.run = RunPython;
    return made;
  }();
  return table;
}

}  // namespace

bool PythonKernel::IsDuplicable(uint32_t slot) const {
  return std::find(duplicable.begin(), duplicable.end(), slot) != duplicable.end();
}

std::shared_ptr<Prepared> MakePythonPrepared(std::unique_ptr<PythonKernel> kernel) {
  std::vector<ow_pack> packs;
  for (const auto& [arg, function] : kernel->packs) packs.push_back({arg, 0, 0});
  FreeRetired();
  auto prepared = MakeRetirable<Prepared>(&Table(), kernel.release(), nullptr, nullptr);
  prepared->packs = std::move(packs);
  return prepared;
}

}  // namespace opwright
