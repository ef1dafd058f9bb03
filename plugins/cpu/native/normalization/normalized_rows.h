// Rows that are normalized by their own statistics. This arithmetic is shared by layer_norm,
// rms_norm (which does not subtract the mean) and group_norm.
#ifndef OPWRIGHT_CPU_NORMALIZATION_NORMALIZED_ROWS_H_
#define OPWRIGHT_CPU_NORMALIZATION_NORMALIZED_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/functors.h>

#include "common/clones.h"
#include "common/parallel.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {

inline Lines NormalizedRows(const opwright::Shape& shape, int64_t begin_norm_axis) {
  const size_t begin = FromFront(begin_norm_axis, shape.rank());
  const std::vector<int64_t>& dims = shape.dims();
  return Lines{Product(dims, 0, begin), Product(dims, begin, dims.size()), 1};
}

inline int64_t RowGrain(int64_t length) { return std::max<int64_t>(1, kElementGrain / length); }

// The mean and inverse deviation of a row, for (x - mean) * inv_std. If squares overflow or
// underflow, so does inv_std, and is_ordinary is false.
template <typename T>
struct RowStatistics {
  T mean;
  T inv_std;
  bool is_ordinary = true;
};

// Computes 1 / sqrt(mean((x - mean)**2) + epsilon) for the rare case that squares overflow or
// underflow. A loop that contains this call is slower even if the call is never executed.
template <typename T>
__attribute__((noinline, cold)) T InverseOfExtremeRow(const T* x, int64_t n, T mean, T epsilon) {
  opwright::functors::SquareSum<T> sum{};
  for (int64_t i = 0; i < n; ++i) sum.Add(x[i] - mean);
  return opwright::functors::InverseDeviation(sum.Root(), static_cast<T>(n), epsilon);
}

// Must be inlined into functions with clones. If kCentered is false, 0 replaces the mean.
template <bool kCentered, typename T>
OPWRIGHT_CPU_INLINE RowStatistics<T> StatisticsOf(const T* x, int64_t n, T epsilon) {
  const T count = static_cast<T>(n);
  T mean = 0;
  if constexpr (kCentered) {
    // The mean is computed from differences to the first element, so it is exact if all are equal.
    const T first = x[0];
    const auto rest = [=](int64_t i) OPWRIGHT_CPU_TERM { return x[i] - first; };
    mean = first + SumOver<T>(n, rest) / count;
  }
  // A second pass over the cached row sums squared deviations, since E[x^2] - E[x]^2 would cancel.
  const auto square = [=](int64_t i) OPWRIGHT_CPU_TERM { return (x[i] - mean) * (x[i] - mean); };
  const T variance = SumOver<T>(n, square) / count;
  const T raised = variance + epsilon;
  return {mean, T(1) / opwright::functors::Sqrt(raised), opwright::functors::IsOrdinary(raised)};
}

// Computes x_grad = inv_std * (g - mean(g) - normal * mean(g * normal)), where g is out_grad times
// the scale; mean(g) is omitted if kCentered is false. With a scale, g is first stored in x_grad
// and thereby rounded. If the multiplication by the scale were fused into the difference, g would
// not be rounded there. The rounding error of g, times a large inv_std, would then remain where g
// equals its mean.
template <bool kCentered, typename T>
OPWRIGHT_CPU_INLINE void XGradRow(const T* x, const T* scaled, int64_t n,
                                  const RowStatistics<T>& row, T* x_grad) {
  const T count = static_cast<T>(n), center = row.mean, spread = row.inv_std;
  const T along = kCentered ? SumOf(scaled, n) / count : T(0);
  const auto term = [=](int64_t i)
                        OPWRIGHT_CPU_TERM { return scaled[i] * ((x[i] - center) * spread); };
  const T across = SumOver<T>(n, term) / count;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T normal = (x[i] - center) * spread;
    x_grad[i] = (scaled[i] - (normal * across + along)) * spread;
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_NORMALIZATION_NORMALIZED_ROWS_H_
