// Memory of the caller that a plan writes: given arrays for fetches, and feeds.
#ifndef OPWRIGHT_PYTHON_WRITTEN_H_
#define OPWRIGHT_PYTHON_WRITTEN_H_

#include "python/call/run_frame.h"

namespace opwright {

// Throws kFeed if it is read-only, does not fit, or overlaps memory that the plan reads or writes
// otherwise. Before the first step; the shapes of fetches behind one that depends on values only
// when they are known.
void CheckWritten(const RunRequest& request, Instance* instance);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_WRITTEN_H_
