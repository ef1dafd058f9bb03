// Runs a plan for native code of another framework, which passes memory instead of Python objects.
#ifndef OPWRIGHT_PYTHON_DIRECT_RUN_H_
#define OPWRIGHT_PYTHON_DIRECT_RUN_H_

#include <cstdint>

#include "runtime/plan/plan.h"

namespace opwright {

// Throws for a plan that RunDirect cannot run.
void CheckDirect(const Plan& plan);

// Runs the `Plan` at `plan`. Each feed and each result is the address of an array with the meta
// that the plan was made for, on the plan's device. Acquires the GIL only for plans with steps in
// Python and to describe a failure. Any number of threads may call it.
int32_t RunDirect(const void* plan, void* const* feeds, void* const* results, char* message,
                  uint64_t message_bytes) noexcept;

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_DIRECT_RUN_H_
