#include "python/call/direct_run.h"

#include <algorithm>
#include <optional>

#include "python/bind/errors.h"
#include "python/bind/interpreter_end.h"
#include "python/call/failures.h"
#include "python/call/intake.h"
#include "runtime/border.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {

class GilHeld {
 public:
  GilHeld() : state_(PyGILState_Ensure()) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

// Hooks of plans with Python steps; `RunState.user` is the thread state while released.
void ReleaseDirect(RunState* state) { state->user = ReleaseGil(); }
void AcquireDirect(RunState* state) { TakeGil(static_cast<PyThreadState*>(state->user)); }
// The caller must handle signals.
int32_t PollDirect(RunState*) { return OW_OK; }
int32_t StartDirect(RunState*, Instance*) { return OW_OK; }
int32_t ForgetDirect(RunState* state, char* message, uint64_t message_bytes) {
  if (state->released > 0 || PyErr_Occurred() == nullptr) return OW_OK;
  PyObject* error = TakeError();
  WriteMessage(message, message_bytes, TextOfError(error).c_str());
  Py_DECREF(error);
  return OW_OK;
}
constexpr RunHooks kDirectHooks = {ReleaseDirect, AcquireDirect, PollDirect, StartDirect,
                                   ForgetDirect};

bool NeedsGil(const Plan& plan) {
  return plan.needs_gil ||
         std::any_of(plan.devices.begin(), plan.devices.end(),
                     [](const DeviceMemory& memory) { return memory.device->needs_gil(); });
}

// Writes the error that `raise` sets, formatted as in Python.
template <typename Raise>
void WriteFailure(char* message, uint64_t message_bytes, const Raise& raise) {
  const GilHeld held;
  raise();
  PyObject* error = TakeError();
  if (error == nullptr) return;
  WriteMessage(message, message_bytes, TextOfError(error).c_str());
  Py_DECREF(error);
}

int32_t RunDirectOn(Instance* instance, void* const* feeds, void* const* results, bool has_gil,
                    char* message, uint64_t message_bytes) {
  static const std::shared_ptr<Scope> no_scope;
  const Plan& plan = instance->plan();
  BindProblem problem;
  if (!instance->IsBound(nullptr) && !instance->Bind(no_scope, &problem)) {
    throw Error(problem.kind, problem.message);
  }
  // None represents the native caller, which owns the memory that is passed to Python kernels.
  for (size_t i = 0; i < plan.feeds.size(); ++i) {
    instance->SetExternal(plan.feeds[i], feeds[i], Py_None);
  }
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    const int64_t external = plan.fetch_externals[i];
    if (external < 0) continue;
    instance->SetExternal(static_cast<uint32_t>(external), results[i], Py_None);
  }
  RunState state;
  state.hooks = has_gil ? &kDirectHooks : nullptr;
  state.scope = &no_scope;
  state.last = instance;
  int32_t status = OW_OK;
  {
    const InsidePlugin inside;
    status = instance->Run(&state);
  }
  if (state.released > 0) AcquireDirect(&state);
  if (status != OW_OK) {
    WriteFailure(message, message_bytes, [&state] { RaiseFailure(state); });
    return status;
  }
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    if (plan.fetch_externals[i] >= 0) continue;
    const DLTensor tensor = instance->Restored(plan.fetches[i], instance->tensor(plan.fetches[i]));
    plan.devices[plan.values[plan.fetches[i]].device].device->CopyWithin(results[i], tensor.data,
                                                                         SizeBytes(tensor));
  }
  return OW_OK;
}

}  // namespace

void CheckDirect(const Plan& plan) {
  CheckRunnable(plan);
  const bool is_dynamic = plan.has_continuation ||
                          std::any_of(plan.fetches.begin(), plan.fetches.end(),
                                      [&plan](uint32_t value) { return plan.IsDynamic(value); });
  const bool has_stream =
      std::any_of(plan.devices.begin(), plan.devices.end(),
                  [](const DeviceMemory& memory) { return memory.device->stream() != nullptr; });
  const char* has = has_stream                    ? "work in the order of a stream"
                    : plan.needs_scope            ? "variables of a scope"
                    : !plan.written_feeds.empty() ? "feeds that it writes"
                    : is_dynamic                  ? "shapes that depend on values"
                                                  : nullptr;
  if (has == nullptr) return;
  Throw(ErrorKind::kProgram, "plan '", plan.name,
        "': a plan for native code must work on feeds of fixed shapes, got one with ", has);
}

int32_t RunDirect(const void* plan_pointer, void* const* feeds, void* const* results, char* message,
                  uint64_t message_bytes) noexcept {
  const Plan& plan = *static_cast<const Plan*>(plan_pointer);
  const bool has_gil = NeedsGil(plan);
  try {
    std::optional<GilHeld> held;
    if (__builtin_expect(has_gil, 0)) {
      held.emplace();
      FreeRetired();
    }
    const Lease lease(plan, nullptr);
    return RunDirectOn(lease.get(), feeds, results, has_gil, message, message_bytes);
  } catch (const BindError& error) {
    WriteFailure(message, message_bytes, [&error] { RaiseBindFailure(error); });
    return OW_ERROR;
  } catch (...) {
    return CatchAtBorder(message, message_bytes);
  }
}

}  // namespace opwright
