#include "normalization/layer_norm_stream.h"

#include <opwright/functors.h>

#include "common/clones.h"
#include "common/streamed_row.h"
#include "normalization/normalized_rows.h"
#include "reduction/blocks.h"

namespace opwright_cpu {
namespace {

// Computes the results of a row from its elements, which are still in the caches.
template <typename T>
struct RowResult {
  const T* x;
  const T* scale;
  const T* bias;
  T mean;
  T inv_std;

  OPWRIGHT_CPU_INLINE T operator()(int64_t i) const {
    return (x[i] - mean) * inv_std * scale[i] + bias[i];
  }
};

// Sums term(i) for i in [0, n), four cache lines at a time, in lanes that are summed block by
// block. Meanwhile, half as many lines of the waiting row are stored, and half as many of `next`
// are prefetched.
template <typename T, typename Term, typename Row>
OPWRIGHT_CPU_INLINE T SumRow(int64_t n, const Term& term, const T* next, Row* waiting) {
  constexpr int64_t kItems = kLineItems<T>;
  constexpr int64_t kStep = 4 * kItems;
  alignas(kLineBytes) T sum[kItems] = {};
  int64_t done = 0;
  while (done + kStep <= n) {
    const int64_t end = std::min(done + kSumBlock, n);
    alignas(kLineBytes) T part[kItems] = {};
    for (; done + kStep <= end; done += kStep) {
#pragma omp simd
      for (int64_t k = 0; k < kItems; ++k) {
        const int64_t i = done + k;
        part[k] += (term(i) + term(i + kItems)) + (term(i + 2 * kItems) + term(i + 3 * kItems));
      }
      FetchLines(next + done / 2, 2 * kLineBytes);
      waiting->StoreLines(2);
    }
    for (int64_t k = 0; k < kItems; ++k) sum[k] += part[k];
  }
  for (int64_t half = kItems / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; ++k) sum[k] += sum[k + half];
  }
  T total = sum[0];
  for (; done < n; ++done) total += term(done);
  return total;
}

template <typename T, typename Store>
OPWRIGHT_CPU_INLINE void StreamRows(const T* x, const T* scale, const T* bias, int64_t n_rows,
                                    int64_t n, T epsilon, T* out, T* means, T* inv_stds) {
  using Result = RowResult<T>;
  using Row = StreamedRow<T, Store, Result>;
  const T count = static_cast<T>(n);
  Row waiting(out, 0, Result{x, scale, bias, T(0), T(0)});
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    const T* next = x + n;
    // The mean is computed from differences to the first element, so it is exact if all are equal.
    const T first = x[0];
    const auto rest = [=](int64_t i) OPWRIGHT_CPU_TERM { return x[i] - first; };
    const T mean = first + SumRow<T>(n, rest, next, &waiting) / count;
    // A second pass over the cached row sums squared deviations; E[x^2] - E[x]^2 would cancel.
    const auto square = [=](int64_t i) OPWRIGHT_CPU_TERM { return (x[i] - mean) * (x[i] - mean); };
    const T variance = SumRow<T>(n, square, next + n / 2, &waiting) / count;
    waiting.Finish();
    means[row] = mean;
    const T raised = variance + epsilon;
    inv_stds[row] = opwright::functors::IsOrdinary(raised)
                        ? T(1) / opwright::functors::Sqrt(raised)
                        : InverseOfExtremeRow(x, n, mean, epsilon);
    waiting = Row(out, n, Result{x, scale, bias, mean, inv_stds[row]});
  }
  waiting.Finish();
}

template <typename T>
using LayerNormRows = void (*)(const T* x, const T* scale, const T* bias, int64_t n_rows, int64_t n,
                               T epsilon, T* out, T* means, T* inv_stds);

template <typename T>
void RowsOldest(const T* x, const T* scale, const T* bias, int64_t n_rows, int64_t n, T epsilon,
                T* out, T* means, T* inv_stds) {
  StreamRows<T, LineStore>(x, scale, bias, n_rows, n, epsilon, out, means, inv_stds);
}
template <typename T>
OPWRIGHT_CPU_AVX2 void RowsAvx2(const T* x, const T* scale, const T* bias, int64_t n_rows,
                                int64_t n, T epsilon, T* out, T* means, T* inv_stds) {
  StreamRows<T, HalfLineStore>(x, scale, bias, n_rows, n, epsilon, out, means, inv_stds);
}
template <typename T>
OPWRIGHT_CPU_AVX512 void RowsAvx512(const T* x, const T* scale, const T* bias, int64_t n_rows,
                                    int64_t n, T epsilon, T* out, T* means, T* inv_stds) {
  StreamRows<T, WholeLineStore>(x, scale, bias, n_rows, n, epsilon, out, means, inv_stds);
}

}  // namespace

template <typename T>
void StreamNormalizedRows(const T* x, const T* scale, const T* bias, int64_t n_rows, int64_t n,
                          T epsilon, T* out, T* means, T* inv_stds) {
  static const auto rows =
      ForThisProcessor<LayerNormRows<T>>(&RowsOldest<T>, &RowsAvx2<T>, &RowsAvx512<T>);
  rows(x, scale, bias, n_rows, n, epsilon, out, means, inv_stds);
  StreamFence();
}

template void StreamNormalizedRows<float>(const float*, const float*, const float*, int64_t,
                                          int64_t, float, float*, float*, float*);
template void StreamNormalizedRows<double>(const double*, const double*, const double*, int64_t,
                                           int64_t, double, double*, double*, double*);

}  // namespace opwright_cpu
