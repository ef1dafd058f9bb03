// The end of the interpreter while other threads are still in a call.
#ifndef OPWRIGHT_PYTHON_INTERPRETER_END_H_
#define OPWRIGHT_PYTHON_INTERPRETER_END_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Release the GIL around native code, and take it again. The interpreter may end in between: then
// the thread stays in TakeGil forever.
PyThreadState* ReleaseGil() noexcept;
void TakeGil(PyThreadState* thread) noexcept;

// The same for a block.
class GilReleased {
 public:
  GilReleased() noexcept : thread_(ReleaseGil()) {}
  ~GilReleased() { TakeGil(thread_); }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* thread_;
};

// To be called regularly by long native code: does not return once the interpreter has ended.
void ParkIfEnded() noexcept;

// Adds free_retired, and makes the end wait until nothing is in use.
void BindInterpreterEnd(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_INTERPRETER_END_H_
