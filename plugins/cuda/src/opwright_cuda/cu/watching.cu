// What looks at values while a program runs.
#include "kernel.h"

using namespace opwright_cuda;

// The number of an element that is false is reported, of several that of any.
__global__ void assert_true(const bool* condition, int64_t n, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    if (!condition[i]) Report(fault, text, i);
  }
}
