#include "attention/seen.h"

#include "common/clones.h"

namespace opwright_cpu {

template <typename T>
void MultiplySeen(const GemmCall<T>& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    T* c = call.c + i * call.ldc;
    for (int64_t j = 0; j < call.n; ++j) c[j] = call.beta == T(0) ? T(0) : call.beta * c[j];
    for (int64_t p = 0; p < call.k; ++p) {
      const T factor = call.alpha * call.a[i * call.a_row + p * call.a_col];
      if (factor == T(0)) continue;
      const T* b = call.b + p * call.b_row;
      for (int64_t j = 0; j < call.n; ++j) c[j] += factor * b[j * call.b_col];
    }
  }
}

// x - x is 0, or NaN if x is not finite; this test takes a third of the time of comparisons. Four
// rows are summed at a time, since a single sum would be a dependency chain.
template <typename T>
OPWRIGHT_CPU_CLONES bool AllFinite(const T* x, int64_t stride, int64_t rows, int64_t columns) {
  T sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T *row0 = x + row * stride, *row1 = row0 + stride;
    const T *row2 = row1 + stride, *row3 = row2 + stride;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
    for (int64_t j = 0; j < columns; ++j) {
      sum0 += row0[j] - row0[j];
      sum1 += row1[j] - row1[j];
      sum2 += row2[j] - row2[j];
      sum3 += row3[j] - row3[j];
    }
  }
  for (; row < rows; ++row) {
    const T* from = x + row * stride;
#pragma omp simd reduction(+ : sum0)
    for (int64_t j = 0; j < columns; ++j) sum0 += from[j] - from[j];
  }
  return sum0 + sum1 + sum2 + sum3 == T(0);
}

#define OPWRIGHT_CPU_INSTANTIATE(T)               \
  template void MultiplySeen(const GemmCall<T>&); \
  template bool AllFinite(const T*, int64_t, int64_t, int64_t);
OPWRIGHT_CPU_INSTANTIATE(float)
OPWRIGHT_CPU_INSTANTIATE(double)
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
