#include "python/bind/interpreter_end.h"

#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "runtime/retired.h"

namespace opwright {

namespace {

// The time that finalization waits for native code. Plans check for the exit after every
// millisecond of work; a single kernel may take longer.
constexpr std::chrono::seconds kLongestWait{10};

std::atomic<int32_t> n_without_gil{0};
std::atomic<bool> has_ended{false};

// Stops a thread that must run no further code, without unwinding its stack, because destructors
// would free objects that other threads may still use, and Python objects without holding the GIL.
[[noreturn]] void Park() noexcept {
  for (;;) pause();
}

bool IsEnding() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  const bool is_finalizing = Py_IsFinalizing() != 0;
#else
  const bool is_finalizing = _Py_IsFinalizing() != 0;
#endif
  return is_finalizing || has_ended.load(std::memory_order_relaxed);
}

// The interpreter calls this last. Afterward, statics are destroyed, including statics of plugins
// and of libraries that they link, which native code in other threads may still use.
void EndNativeCode() {
  has_ended.store(true, std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (n_without_gil.load(std::memory_order_acquire) > 0) {
    if (std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  FreeRetired();
}

// Resets the count in a forked child, which has no other threads.
void ForgetThreads() { n_without_gil.store(0, std::memory_order_relaxed); }

}  // namespace

PyThreadState* ReleaseGil() noexcept {
  n_without_gil.fetch_add(1, std::memory_order_relaxed);
  return PyEval_SaveThread();
}

void TakeGil(PyThreadState* thread) noexcept {
  ParkIfEnded();
  n_without_gil.fetch_sub(1, std::memory_order_release);
  PyEval_RestoreThread(thread);
}

void ParkIfEnded() noexcept {
  if (!has_ended.load(std::memory_order_relaxed)) return;
  n_without_gil.fetch_sub(1, std::memory_order_release);
  Park();
}

void BindInterpreterEnd(py::module_& module) {
  module.def("free_retired", &FreeRetired,
             "Free the objects that are no longer used and wait for a call into their plugin.");
  // Python devices can be called up to this point; later, only compiled devices free memory.
  py::module_::import("atexit").attr("register")(module.attr("free_retired"));
  if (Py_AtExit(EndNativeCode) != 0) throw std::runtime_error("opwright: Py_AtExit has no room");
  pthread_atfork(nullptr, nullptr, ForgetThreads);
}

}  // namespace opwright

// Up to Python 3.13, a thread that requests the GIL of an exiting interpreter is terminated by
// pthread_exit, which unwinds its stack. Unwinding is unsafe for C++ frames: a frame that is
// noexcept or catches everything aborts the process, and destructors would release references
// without the GIL. The unwinder calls each frame's personality function, innermost frame first,
// before any destructor. So the linker (--wrap) replaces the personality function of this module by
// the following function, in which the thread stops, as in Python from 3.14 on. Normal calls do not
// become slower.
extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && opwright::IsEnding()) opwright::Park();
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

}  // extern "C"
