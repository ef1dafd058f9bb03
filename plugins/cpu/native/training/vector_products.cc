#include "training/vector_products.h"

#include "common/clones.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddEightRows(const T* x, const T* w, int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) {
    const T first = x[0] * w[j] + x[1] * w[n + j] + x[2] * w[2 * n + j] + x[3] * w[3 * n + j];
    const T second =
        x[4] * w[4 * n + j] + x[5] * w[5 * n + j] + x[6] * w[6 * n + j] + x[7] * w[7 * n + j];
    out[j] += first + second;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddOneRow(T x, const T* w, int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) out[j] += x * w[j];
}

// Sums of a row in lanes of their own, because the compiler may not reorder a sum of floats.
template <typename T>
OPWRIGHT_CPU_CLONES T Dot(const T* x, const T* y, int64_t n) {
  constexpr int64_t kLanes = 32;
  T lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[j + lane] * y[j + lane];
  }
  for (int64_t lane = 0; j + lane < n; ++lane) lanes[lane] += x[j + lane] * y[j + lane];
  T total = T(0);
  for (int64_t lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

template <typename T>
OPWRIGHT_CPU_CLONES void UpdateRow(T factor, const T* y, int64_t n, T beta, T* w) {
  if (beta == T(1)) {
    for (int64_t j = 0; j < n; ++j) w[j] += factor * y[j];
  } else {
    for (int64_t j = 0; j < n; ++j) w[j] = beta * w[j] + factor * y[j];
  }
}

}  // namespace

template <typename T>
void VectorTimesMatrix(const T* x, const T* w, int64_t k, int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = T(0);
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) AddEightRows(x + p, w + p * n, n, out);
  for (; p < k; ++p) AddOneRow(x[p], w + p * n, n, out);
}

template <typename T>
void MatrixTimesVector(const T* w, const T* x, int64_t rows, int64_t n, T* out) {
  for (int64_t i = 0; i < rows; ++i) out[i] = Dot(w + i * n, x, n);
}

template <typename T>
void UpdateByOuterProduct(const T* x, const T* y, int64_t rows, int64_t n, T alpha, T beta, T* w) {
  for (int64_t i = 0; i < rows; ++i) UpdateRow(alpha * x[i], y, n, beta, w + i * n);
}

template <typename T>
void SumColumns(const T* y, int64_t rows, int64_t n, T* sums) {
  for (int64_t j = 0; j < n; ++j) sums[j] = T(0);
  for (int64_t i = 0; i < rows; ++i) AddOneRow(T(1), y + i * n, n, sums);
}

template void VectorTimesMatrix(const float*, const float*, int64_t, int64_t, float*);
template void VectorTimesMatrix(const double*, const double*, int64_t, int64_t, double*);
template void MatrixTimesVector(const float*, const float*, int64_t, int64_t, float*);
template void MatrixTimesVector(const double*, const double*, int64_t, int64_t, double*);
template void UpdateByOuterProduct(const float*, const float*, int64_t, int64_t, float, float,
                                   float*);
template void UpdateByOuterProduct(const double*, const double*, int64_t, int64_t, double, double,
                                   double*);
template void SumColumns(const float*, int64_t, int64_t, float*);
template void SumColumns(const double*, int64_t, int64_t, double*);

}  // namespace opwright_cpu
