// Selects each row from one of several tensors.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// Copies the rows whose index is `which` and, if kWithZeros, writes 0 to all other rows. The layout
// has the dimensions [rows, row]. An index outside [0, count) is reported.
template <typename T, typename Index, typename Int, bool kWithZeros>
__global__ void take_rows(T* out, const T* x, const Index* index, int64_t n, Layout<0> layout,
                          int64_t which, int64_t count, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const auto row = static_cast<int64_t>(QuotientByDim<Int>(layout, 0, static_cast<Int>(i)));
    const auto chosen = static_cast<int64_t>(index[row]);
    if (chosen < 0 || chosen >= count) Report(fault, text, chosen);
    if (chosen == which) {
      out[i] = x[i];
    } else if (kWithZeros) {
      out[i] = T{};
    }
  }
}
