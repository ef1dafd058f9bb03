#include "python/call/run_frame.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/call/failures.h"
#include "python/call/intake.h"
#include "python/call/written.h"
#include "runtime/border.h"
#include "runtime/library/host.h"

namespace opwright {

namespace {

constexpr int64_t kFirstPollNs = 1'000'000;
constexpr int64_t kLongestPollNs = 100'000'000;
// If acquiring the GIL takes longer than this, because another thread is busy, it is acquired less
// often.
constexpr int64_t kSlowTakeNs = 500'000;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The results of a run; a few results, as most plans have, are stored without an allocation.
class Results {
 public:
  explicit Results(size_t n) : n_(n) {
    if (n > few_.size()) many_.resize(n);
    data_ = n > few_.size() ? many_.data() : few_.data();
    std::fill(data_, data_ + n, nullptr);
  }
  ~Results() {
    for (size_t i = 0; i < n_; ++i) Py_XDECREF(data_[i]);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  PyObject*& operator[](size_t i) { return data_[i]; }
  size_t size() const { return n_; }
  PyObject* Take(size_t i) {
    PyObject* taken = data_[i];
    data_[i] = nullptr;
    return taken;
  }
  // Resizes for the last plan of a chain, since only then the number of fetches is known.
  void Resize(size_t n) {
    many_.resize(n);
    data_ = many_.data();
    n_ = n;
  }

 private:
  size_t n_;
  std::array<PyObject*, 8> few_;
  std::vector<PyObject*> many_;
  PyObject** data_;
};

// `RunState.user` points to it.
struct Frame {
  Results results;
  const RunRequest& request;
  PyThreadState* thread = nullptr;
  int64_t last_poll_ns = 0;
  int64_t last_switch_ns = 0;  // of threads while the GIL is held; 0 before the first poll
  int64_t switch_interval_ns = 0;
  int64_t poll_interval_ns = kFirstPollNs;
  int32_t sees_signals = -1;  // unknown before the first poll
};

Frame& FrameOf(RunState* state) { return *static_cast<Frame*>(state->user); }

void Release(RunState* state) { FrameOf(state).thread = ReleaseGil(); }

void Acquire(RunState* state) { TakeGil(FrameOf(state).thread); }

// Returns twice Python's own switch interval, or a negative number if Python has raised an
// exception. A thread that has waited for the whole interval requests the GIL, and releasing the
// GIL then waits until that thread has it. Without a request, this thread would nearly always take
// the GIL again, and every release restarts the wait.
int64_t SwitchIntervalNs() {
  PyObject* sys = PyImport_ImportModule("sys");
  PyObject* got = sys == nullptr ? nullptr : PyObject_CallMethod(sys, "getswitchinterval", nullptr);
  const double seconds = got == nullptr ? -1 : PyFloat_AsDouble(got);
  Py_XDECREF(got);
  Py_XDECREF(sys);
  return static_cast<int64_t>(2e9 * seconds);
}

// Polls while the GIL is held, as in spans with a short estimated duration. A loop in such a span
// may still run for hours, so other threads must get to run, as they do between Python bytecodes.
int32_t PollHolding(RunState* state) {
  if (PyErr_CheckSignals() != 0) return OW_ERROR;
  Frame& frame = FrameOf(state);
  if (frame.last_switch_ns == 0) {
    frame.switch_interval_ns = SwitchIntervalNs();
    if (frame.switch_interval_ns < 0) return OW_ERROR;
  } else {
    if (NowNs() - frame.last_switch_ns < frame.switch_interval_ns) return OW_OK;
    Release(state);
    Acquire(state);
  }
  frame.last_switch_ns = NowNs();
  return OW_OK;
}

int32_t Poll(RunState* state) {
  if (state->released == 0) return PollHolding(state);
  ParkIfEnded();
  Frame& frame = FrameOf(state);
  if (frame.sees_signals < 0) {
    // Python handles signals only in the main thread; other threads need not acquire the GIL.
    frame.sees_signals = syscall(SYS_gettid) == getpid() ? 1 : 0;
  }
  const int64_t now = NowNs();
  if (frame.sees_signals == 0 || now - frame.last_poll_ns < frame.poll_interval_ns) return OW_OK;
  Acquire(state);
  const int64_t taken = NowNs();
  const int status = PyErr_CheckSignals();
  Release(state);
  frame.last_poll_ns = taken;
  if (taken - now > kSlowTakeNs) {
    frame.poll_interval_ns = std::min(2 * frame.poll_interval_ns, kLongestPollNs);
  }
  return status == 0 ? OW_OK : OW_ERROR;
}

// Returns the array or tensor to write a fetch into, or null for new memory.
PyObject* FindOut(const RunRequest& request, size_t fetch) {
  return request.out == nullptr ? nullptr : (*request.out)[fetch].ptr();
}

// Finds the arrays that kernels write results to; the caller provides them, or they are new.
int32_t Start(RunState* state, Instance* instance) {
  const RunRequest& request = FrameOf(state).request;
  Results& results = FrameOf(state).results;
  const Plan& plan = instance->plan();
  if (__builtin_expect(request.out != nullptr || !plan.written_feeds.empty(), 0)) {
    try {
      CheckWritten(request, instance);
    } catch (...) {
      SetPythonError();
      return OW_ERROR;
    }
  }
  if (results.size() != plan.fetches.size()) results.Resize(plan.fetches.size());
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    const int64_t external = plan.fetch_externals[i];
    if (external < 0) continue;
    const Value& info = plan.values[plan.fetches[i]];
    PyObject* out = FindOut(request, i);
    PyObject* array = out != nullptr && IsReady(out)
                          ? Py_NewRef(out)
                          : NewArray(info.dtype, info.ndim, instance->dims(plan.fetches[i]));
    if (array == nullptr) return OW_OUT_OF_MEMORY;
    results[i] = array;
    instance->SetExternal(static_cast<uint32_t>(external), PyArray_DATA(AsArray(array)), array);
  }
  return OW_OK;
}

int32_t ForgetError(RunState* state, char* message, uint64_t message_bytes) {
  if (state->released > 0 || PyErr_Occurred() == nullptr) return OW_OK;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return OW_ERROR;  // Ctrl-C
  PyObject* error = TakeError();
  const std::string text = Concat(Py_TYPE(error)->tp_name, ": ", TextOfError(error));
  Py_DECREF(error);
  WriteMessage(message, message_bytes, text.c_str());
  return OW_OK;
}

constexpr RunHooks kHooks = {Release, Acquire, Poll, Start, ForgetError};

// Returns a copy of a fetched value that no kernel has written to a result array. If `out` is a
// tensor, the copy is in `out`. Throws.
PyObject* CopyOut(Instance* instance, uint32_t value, bool fetch_device, PyObject* out) {
  const Plan& plan = instance->plan();
  const DLTensor tensor = instance->Restored(value, instance->tensor(value));
  const Value& info = plan.values[value];
  const std::shared_ptr<Device>& device = plan.devices[info.device].device;
  const uint64_t bytes = SizeBytes(tensor);
  const Tensor* target = out == nullptr ? nullptr : FeedTensor(out);
  if (target != nullptr) {
    device->CopyWithin(target->data(), tensor.data, bytes);
    if (target->storage->is_foreign()) device->Synchronize();  // its owner may then read it
    return Py_NewRef(out);
  }
  if (fetch_device && out == nullptr) {
    auto copy = MakeTensor(device, tensor.dtype, Shape(tensor.shape, tensor.shape + tensor.ndim),
                           plan.name);
    device->CopyWithin(copy->data(), tensor.data, bytes);
    const bool is_feed = info.kind == ValueKind::kExternal &&
                         plan.externals[static_cast<size_t>(info.index)].role == Role::kFeed;
    if (is_feed) device->Synchronize();  // after this, its owner may change the memory
    return py::cast(TensorHandle{std::move(copy)}).release().ptr();
  }
  PyObject* array = NewArray(tensor.dtype, tensor.ndim, tensor.shape);
  if (array == nullptr) throw py::error_already_set();
  const py::object held = py::reinterpret_steal<py::object>(array);
  device->CopyToHost(PyArray_DATA(AsArray(array)), tensor.data, bytes);
  return Py_NewRef(array);
}

// Converts a host array of a FETCH external to a Tensor; throws.
PyObject* ArrayToTensor(PyObject* array) {
  auto tensor = TensorFromNumpy(array, HostDevice(), "fetch");
  return py::cast(TensorHandle{std::move(tensor)}).release().ptr();
}

PyObject* Collect(Results* results, RunState* state, const RunRequest& request) {
  if (request.form == ResultForm::kNothing) return Py_NewRef(Py_None);
  const Plan& plan = state->last->plan();
  if (results->size() != plan.fetches.size()) results->Resize(plan.fetches.size());
  for (size_t i = 0; i < results->size(); ++i) {
    PyObject*& result = (*results)[i];
    PyObject* out = FindOut(request, i);
    if (result == nullptr) {
      result = CopyOut(state->last, plan.fetches[i], request.fetch_device, out);
    } else if (request.fetch_device && out == nullptr) {
      PyObject* tensor = ArrayToTensor(result);
      Py_SETREF(result, tensor);
    }
    if (out == nullptr || out == result) continue;
    if (PyArray_CopyInto(AsArray(out), AsArray(result)) < 0) return nullptr;
    Py_SETREF(result, Py_NewRef(out));
  }
  if (request.form == ResultForm::kFirst && results->size() == 1) return results->Take(0);
  const auto n = static_cast<Py_ssize_t>(results->size());
  const bool list = request.form == ResultForm::kList;
  PyObject* made = list ? PyList_New(n) : PyTuple_New(n);
  if (made == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = results->Take(static_cast<size_t>(i));
    if (list) {
      PyList_SET_ITEM(made, i, item);
    } else {
      PyTuple_SET_ITEM(made, i, item);
    }
  }
  return made;
}

// Lends the feeds to the instance. Returns whether a feed is device memory of a different owner,
// which may change the memory after the call.
bool SetFeeds(const RunRequest& request, Instance* instance) {
  const Plan& plan = *request.plan;
  bool foreign = false;
  for (size_t i = 0; i < plan.feeds.size(); ++i) {
    PyObject* feed = request.feeds[request.order == nullptr ? i : request.order[i]];
    const Tensor* tensor = plan.has_device_feeds ? FeedTensor(feed) : nullptr;
    if (tensor == nullptr) {
      instance->SetExternal(plan.feeds[i], PyArray_DATA(AsArray(feed)), feed);
    } else {
      instance->SetExternal(plan.feeds[i], tensor->data(), feed);
      foreign = foreign || tensor->storage->is_foreign();
    }
  }
  return foreign;
}

// Waits until enqueued work has read the feeds. On failure, returns false and sets an error.
bool WaitForFeeds(Instance* instance) {
  char text[512] = {0};
  const ow_error error{text, sizeof(text)};
  int32_t status = OW_OK;
  {
    const GilReleased released;
    status = instance->WaitForFeeds(&error);
  }
  if (status == OW_OK) return true;
  const std::string message = Concat("plan '", instance->plan().name,
                                     "': waiting until the feeds were read failed with status ",
                                     status, text[0] ? ": " : "", text);
  RaiseKind(ErrorKind::kKernel, message.c_str());
  return false;
}

// Inlined so that calls with a separate instance do not slow down the usual call.
__attribute__((always_inline)) inline PyObject* RunOn(const RunRequest& request, Instance* instance,
                                                      BindProblem* problem) {
  FreeRetired();
  const Plan& plan = *request.plan;
  Frame frame{Results(plan.fetches.size()), request};
  RunState state;
  state.hooks = &kHooks;
  state.user = &frame;
  state.scope = &request.scope;
  if (!instance->IsBound(request.scope.get()) && !instance->Bind(request.scope, problem)) {
    return nullptr;
  }
  const bool foreign = SetFeeds(request, instance);
  state.last = instance;
  int32_t status = Start(&state, instance);
  if (status != OW_OK) return nullptr;
  {
    const InsidePlugin inside;
    status = instance->Run(&state);
  }
  if (state.released > 0) Acquire(&state);
  if (__builtin_expect(status != OW_OK, 0)) {
    RaiseFailure(state);
    if (foreign) {
      const py::error_scope keep;
      WaitForFeeds(instance);
      PyErr_Clear();
    }
    return nullptr;
  }
  if (foreign && !WaitForFeeds(instance)) return nullptr;
  return Collect(&frame.results, &state, request);
}

}  // namespace

PyObject* RunPlan(const RunRequest& request, BindProblem* problem) noexcept {
  try {
    const Lease lease(*request.plan, request.scope.get());
    return RunOn(request, lease.get(), problem);
  } catch (const BindError& error) {
    RaiseBindFailure(error);
    return nullptr;
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* RunPlanOrRaise(const RunRequest& request) noexcept {
  BindProblem problem;
  PyObject* result = RunPlan(request, &problem);
  if (result == nullptr && !PyErr_Occurred()) RaiseKind(problem.kind, problem.message.c_str());
  return result;
}

PyObject* RunInstanceOrRaise(const RunRequest& request, Instance* instance) noexcept {
  try {
    BindProblem problem;
    PyObject* result = RunOn(request, instance, &problem);
    if (result == nullptr && !PyErr_Occurred()) RaiseKind(problem.kind, problem.message.c_str());
    return result;
  } catch (...) {
    return SetPythonError();
  }
}

std::unique_ptr<Instance> BuildInstance(const Plan& plan) {
  try {
    auto made = std::make_unique<Instance>(plan, nullptr, nullptr);
    made->Build();
    return made;
  } catch (const BindError& error) {
    RaiseBindFailure(error);
    throw py::error_already_set();
  }
}

}  // namespace opwright
