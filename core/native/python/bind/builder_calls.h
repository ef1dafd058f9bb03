// The two methods of PlanBuilder that lowering calls for every operator.
#ifndef OPWRIGHT_PYTHON_BUILDER_CALLS_H_
#define OPWRIGHT_PYTHON_BUILDER_CALLS_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

// Adds `value` and `kernel` to the class PlanBuilder.
void AddBuilderCalls(const py::object& type);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_BUILDER_CALLS_H_
