// Matrix products that skip rows of weight 0: rows hidden by lengths or a mask may be NaN, and 0
// times NaN is NaN.
#include "kernel.h"

using namespace opwright_cuda;

// Matrices of weights and of rows. Element (r, p) of the weights is at r * row + p * inner.
struct WeighedRows {
  int64_t n_outputs;
  int64_t columns;
  int64_t rows;
  int64_t terms;
  int64_t row;
  int64_t inner;
};

// Recomputes non-finite sums without rows of weight 0, since a hidden key may be NaN.
template <typename T>
__global__ void sum_seen(T* out, const T* weights, const T* x, WeighedRows w) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < w.n_outputs; i += GridThreads()) {
    const C made = Load(out[i]);
    if (made - made == C(0)) continue;
    const int64_t line = i / w.columns;
    const int64_t group = line / w.rows;
    const T* from = weights + group * w.rows * w.terms + line % w.rows * w.row;
    const T* values = x + group * w.terms * w.columns + i % w.columns;
    C sum = C(0);
    for (int64_t p = 0; p < w.terms; ++p) {
      const C weight = Load(from[p * w.inner]);
      if (weight != C(0)) sum += weight * Load(values[p * w.columns]);
    }
    out[i] = Store<T>(sum);
  }
}
