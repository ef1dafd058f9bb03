// Checks the caller's memory that a plan writes: arrays for fetches, and written feeds.
#ifndef OPWRIGHT_PYTHON_WRITTEN_H_
#define OPWRIGHT_PYTHON_WRITTEN_H_

#include "python/call/run_frame.h"

namespace opwright {

// Throws kFeed if memory is read-only, does not fit, or overlaps other memory that the plan reads
// or writes. The check runs before the first step. If the shape of a fetch depends on values, the
// fetch is checked once its shape is known.
void CheckWritten(const RunRequest& request, Instance* instance);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_WRITTEN_H_
