// Handles the exit of the interpreter while other threads are still in a call.
#ifndef OPWRIGHT_PYTHON_INTERPRETER_END_H_
#define OPWRIGHT_PYTHON_INTERPRETER_END_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Release the GIL around native code, and reacquire it. If the interpreter exits in between, the
// thread stays in TakeGil forever.
PyThreadState* ReleaseGil() noexcept;
void TakeGil(PyThreadState* thread) noexcept;

// Releases the GIL for a C++ scope.
class GilReleased {
 public:
  GilReleased() noexcept : thread_(ReleaseGil()) {}
  ~GilReleased() { TakeGil(thread_); }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* thread_;
};

// Long native code must call this regularly; the call never returns if the interpreter has exited.
void ParkIfEnded() noexcept;

// Adds free_retired, and makes the interpreter's exit wait until no native code runs.
void BindInterpreterEnd(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_INTERPRETER_END_H_
