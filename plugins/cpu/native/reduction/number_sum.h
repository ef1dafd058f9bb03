// Sums that skip NaN.
#ifndef OPWRIGHT_CPU_REDUCTION_NUMBER_SUM_H_
#define OPWRIGHT_CPU_REDUCTION_NUMBER_SUM_H_

#include "reduction/blocks.h"

namespace opwright_cpu {

// NaN that results from infinities in partial sums is kept, because `Rest`, which combines partial
// sums, does not skip NaN.
template <typename T>
struct NumberSum {
  using Rest = Sum<T>;
  static OPWRIGHT_CPU_INLINE T Of(T x) { return x == x ? x : T(0); }
  static OPWRIGHT_CPU_INLINE T Combine(T a, T b) { return a + b; }
  static OPWRIGHT_CPU_INLINE T Row(const T* x, int64_t n) {
    return SumOver<T>(n, [x](int64_t i) OPWRIGHT_CPU_TERM { return Of(x[i]); });
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_NUMBER_SUM_H_
