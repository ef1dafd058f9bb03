// Converts failures of runs to Python errors.
#ifndef OPWRIGHT_PYTHON_FAILURES_H_
#define OPWRIGHT_PYTHON_FAILURES_H_

#include <string>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/run.h"

namespace opwright {

// Returns the message of an error; exceptions of its `__str__` are dropped.
std::string TextOfError(PyObject* error);

// Set the error for a plan that could not be bound, or for a run that failed.
void RaiseBindFailure(const BindError& error);
void RaiseFailure(const RunState& state);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_FAILURES_H_
