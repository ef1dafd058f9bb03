// One call of a plan from Python: binds feeds, runs steps, returns fetches or sets an error.
#ifndef OPWRIGHT_PYTHON_RUN_FRAME_H_
#define OPWRIGHT_PYTHON_RUN_FRAME_H_

#include <memory>
#include <vector>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/instance.h"

namespace opwright {

// The form of a call's result.
enum class ResultForm {
  kNothing,  // None
  kList,     // a list of all fetches
  kFirst,    // the first fetch
  kTuple,    // a tuple of all fetches
};

struct RunRequest {
  const std::shared_ptr<const Plan>& plan;
  const std::shared_ptr<Scope>& scope;
  PyObject* const* feeds = nullptr;  // ready arrays, or Tensors
  // For each feed external, the index of its feed; null if both are in the same order.
  const uint32_t* order = nullptr;
  ResultForm form = ResultForm::kNothing;
  bool fetch_device = false;  // whether to return Tensors on the values' device
  // For each fetch, the result of BorrowMemory to write the fetch into, or null for new memory.
  const std::vector<py::object>* out = nullptr;
};

// Runs a plan with the GIL held; the caller keeps plan, scope and feeds alive until it returns. On
// failure, returns NULL and sets Python's error. If the plan does not fit the scope, returns NULL
// without an error and fills in `problem`.
PyObject* RunPlan(const RunRequest& request, BindProblem* problem) noexcept;

// Like RunPlan, but also raises if the plan does not fit the scope.
PyObject* RunPlanOrRaise(const RunRequest& request) noexcept;

// Like RunPlanOrRaise, but runs on an instance given by the caller.
PyObject* RunInstanceOrRaise(const RunRequest& request, Instance* instance) noexcept;
// Throws Python's error if a kernel could not be bound.
std::unique_ptr<Instance> BuildInstance(const Plan& plan);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_RUN_FRAME_H_
