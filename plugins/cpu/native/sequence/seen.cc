#include "sequence/seen.h"

#include <limits>

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

template <typename T>
OPWRIGHT_CPU_CLONES bool AllFinite(const T* x, int64_t stride, int64_t rows, int64_t columns) {
  constexpr T kMost = std::numeric_limits<T>::max();
  int finite = 1;
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = x + row * stride;
#pragma omp simd reduction(& : finite)
    for (int64_t j = 0; j < columns; ++j) {
      finite &= static_cast<int>(from[j] >= -kMost && from[j] <= kMost);
    }
  }
  return finite != 0;
}

#define OPWRIGHT_CPU_INSTANTIATE(T)               \
  template void MultiplySeen(const GemmCall<T>&); \
  template bool AllFinite(const T*, int64_t, int64_t, int64_t);
OPWRIGHT_CPU_INSTANTIATE(float)
OPWRIGHT_CPU_INSTANTIATE(double)
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
