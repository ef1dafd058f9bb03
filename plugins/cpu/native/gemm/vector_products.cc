#include "gemm/vector_products.h"

#include "common/clones.h"

namespace opwright_cpu {
namespace {

// Each function contains the loop over all rows, because calling the version for this processor
// takes as long as a short row.

template <typename T>
OPWRIGHT_CPU_CLONES void AddScaledRows(const T* __restrict x, const T* __restrict w, int64_t stride,
                                       int64_t k, int64_t n, T* __restrict out) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) {
    const T* row = w + p * stride;
    const T* f = x + p;
    for (int64_t j = 0; j < n; ++j) {
      const T first = f[0] * row[j] + f[1] * row[stride + j] + f[2] * row[2 * stride + j] +
                      f[3] * row[3 * stride + j];
      const T second = f[4] * row[4 * stride + j] + f[5] * row[5 * stride + j] +
                       f[6] * row[6 * stride + j] + f[7] * row[7 * stride + j];
      out[j] += first + second;
    }
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) out[j] += x[p] * w[p * stride + j];
  }
}

// Sums each row in separate lanes, because the compiler may not reorder a sum of floats. Four rows
// are summed at a time, so additions do not wait for each other.
template <typename T>
OPWRIGHT_CPU_CLONES void DotRows(const T* __restrict w, int64_t stride, const T* __restrict x,
                                 int64_t rows, int64_t n, T* __restrict out) {
  constexpr int64_t kLanes = 16;
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of dependent types there
  typedef T Lanes __attribute__((vector_size(kLanes * sizeof(T)), aligned(sizeof(T)), may_alias));
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < rows; i += 4) {
    const int64_t count = rows - i < 4 ? rows - i : 4;
    Lanes sums[4] = {};
    const T* row[4];
    for (int64_t r = 0; r < 4; ++r) row[r] = w + (i + (r < count ? r : 0)) * stride;
    for (int64_t j = 0; j < whole; j += kLanes) {
      const Lanes factor = *reinterpret_cast<const Lanes*>(x + j);
      sums[0] += factor * *reinterpret_cast<const Lanes*>(row[0] + j);
      sums[1] += factor * *reinterpret_cast<const Lanes*>(row[1] + j);
      sums[2] += factor * *reinterpret_cast<const Lanes*>(row[2] + j);
      sums[3] += factor * *reinterpret_cast<const Lanes*>(row[3] + j);
    }
    for (int64_t r = 0; r < count; ++r) {
      T total = T(0);
      for (int64_t j = whole; j < n; ++j) total += row[r][j] * x[j];
      for (int64_t lane = 0; lane < kLanes; ++lane) total += sums[r][lane];
      out[i + r] = total;
    }
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddOuterProduct(const T* __restrict x, const T* __restrict y, int64_t rows,
                                         int64_t n, T alpha, T* __restrict w) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    T* row = w + i * n;
    const T f0 = alpha * x[i];
    const T f1 = alpha * x[i + 1];
    const T f2 = alpha * x[i + 2];
    const T f3 = alpha * x[i + 3];
    for (int64_t j = 0; j < n; ++j) {
      row[j] += f0 * y[j];
      row[n + j] += f1 * y[j];
      row[2 * n + j] += f2 * y[j];
      row[3 * n + j] += f3 * y[j];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) w[i * n + j] += alpha * x[i] * y[j];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void Scale(T factor, T* w, int64_t count) {
  for (int64_t i = 0; i < count; ++i) w[i] *= factor;
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddRows(const T* __restrict y, int64_t rows, int64_t n,
                                 T* __restrict sums) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) sums[j] += y[i * n + j];
  }
}

}  // namespace

template <typename T>
void VectorTimesMatrix(const T* x, const T* w, int64_t stride, int64_t k, int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = T(0);
  AddScaledRows(x, w, stride, k, n, out);
}

template <typename T>
void MatrixTimesVector(const T* w, int64_t stride, const T* x, int64_t rows, int64_t n, T* out) {
  DotRows(w, stride, x, rows, n, out);
}

template <typename T>
void UpdateByOuterProduct(const T* x, const T* y, int64_t rows, int64_t n, T alpha, T beta, T* w) {
  if (beta != T(1)) Scale(beta, w, rows * n);
  AddOuterProduct(x, y, rows, n, alpha, w);
}

template <typename T>
void SumColumns(const T* y, int64_t rows, int64_t n, T* sums) {
  for (int64_t j = 0; j < n; ++j) sums[j] = T(0);
  AddRows(y, rows, n, sums);
}

template void VectorTimesMatrix(const float*, const float*, int64_t, int64_t, int64_t, float*);
template void VectorTimesMatrix(const double*, const double*, int64_t, int64_t, int64_t, double*);
template void MatrixTimesVector(const float*, int64_t, const float*, int64_t, int64_t, float*);
template void MatrixTimesVector(const double*, int64_t, const double*, int64_t, int64_t, double*);
template void UpdateByOuterProduct(const float*, const float*, int64_t, int64_t, float, float,
                                   float*);
template void UpdateByOuterProduct(const double*, const double*, int64_t, int64_t, double, double,
                                   double*);
template void SumColumns(const float*, int64_t, int64_t, float*);
template void SumColumns(const double*, int64_t, int64_t, double*);

}  // namespace opwright_cpu
