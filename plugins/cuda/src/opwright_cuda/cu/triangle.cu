// triu and tril keep one triangle of matrices and set the other triangle to 0.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// The layout has the dimensions [matrices, rows, columns]; T is any type with the element size. The
// triangle is bounded by the diagonal j - i = `k`. `out` may be `x`.
template <typename T, typename Int, bool kUpper>
__global__ void triangle(T* out, const T* x, int64_t n, Layout<0> layout, int64_t k) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const Int line = QuotientByDim<Int>(layout, 0, static_cast<Int>(i));
    const Int matrix = QuotientByDim<Int>(layout, 1, line);
    const int64_t column = i - static_cast<int64_t>(line) * layout.dims[0];
    const int64_t row = static_cast<int64_t>(line) - static_cast<int64_t>(matrix) * layout.dims[1];
    const bool is_kept = kUpper ? column - row >= k : column - row <= k;
    out[i] = is_kept ? x[i] : T(0);
  }
}
