// Operators that inspect values while a program runs.
#include "kernel.h"

using namespace opwright_cuda;

// Reports the index of a false element; if several elements are false, reports only one of them.
__global__ void assert_true(const bool* condition, int64_t n, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    if (!condition[i]) Report(fault, text, i);
  }
}
