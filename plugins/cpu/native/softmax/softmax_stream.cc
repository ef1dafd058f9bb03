#include "softmax/softmax_stream.h"

#include <opwright/functors.h>

#include <algorithm>

#include "common/clones.h"
#include "common/streamed_row.h"
#include "reduction/blocks.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Computes the results of a line from its stored exponentials or, if kLog, from its elements.
template <typename T, bool kLog>
struct LineResult {
  const T* kept;
  T maximum;
  T factor;

  OPWRIGHT_CPU_INLINE T operator()(int64_t i) const {
    return kLog ? (kept[i] - maximum) - factor : kept[i] * factor;
  }
};

// Finds the largest element of a row, four cache lines at a time. If an element is NaN, any element
// may be returned, since all results are then NaN. Meanwhile, a few cache lines of the waiting row
// are stored, and the beginning of the next row is prefetched. The rest of both rows follows while
// the exponentials are computed, which takes about five times as long.
constexpr int64_t kMaxLines = 4;

template <typename T, typename Row>
OPWRIGHT_CPU_INLINE T FindMaximum(const T* x, int64_t n, Row* waiting) {
  constexpr int64_t kItems = kLineItems<T>;
  constexpr int64_t kBlock = kMaxLines * kItems;
  const int64_t whole = n & -kBlock;
  T best = MaxOf(x + whole, n - whole);
  alignas(kLineBytes) T lanes[kItems];
  for (int64_t lane = 0; lane < kItems; ++lane) lanes[lane] = best;
  for (int64_t i = 0; i < whole; i += kBlock) {
    const T* from = x + i;
#pragma omp simd
    for (int64_t k = 0; k < kItems; ++k) {
      const T a = from[k], b = from[k + kItems], c = from[k + 2 * kItems], d = from[k + 3 * kItems];
      const T ab = a > b ? a : b, cd = c > d ? c : d;
      const T abcd = ab > cd ? ab : cd;
      lanes[k] = abcd > lanes[k] ? abcd : lanes[k];
    }
    __builtin_prefetch(x + n + i / kMaxLines);
    if (i / kBlock % 2 == 0) waiting->StoreLines(1);
  }
  for (int64_t lane = 0; lane < kItems; ++lane) best = lanes[lane] > best ? lanes[lane] : best;
  return best;
}

template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE T PowerOf(T x, T maximum, T* kept) {
  const T power = functors::ExpNonPositive(x - maximum);
  if (!kLog) *kept = power;
  return power;
}

// Sums exp(x - maximum), and stores the exponentials unless kLog. Meanwhile, stores one line of the
// waiting row per line of this row, and prefetches the rest of the next row.
template <typename T, bool kLog, typename Row>
OPWRIGHT_CPU_INLINE T AddPowers(const T* x, int64_t n, T maximum, T* kept, Row* waiting) {
  const int64_t lines = n / kLineItems<T>;
  const int64_t fetched = lines / kMaxLines;
  const int64_t both = std::min(lines, waiting->waiting());
  alignas(kLineBytes) T sum[kLineItems<T>] = {};
  for (int64_t begin = 0; begin < lines; begin += kSumBlock / kLineItems<T>) {
    const int64_t end = std::min(begin + kSumBlock / kLineItems<T>, lines);
    alignas(kLineBytes) T part[kLineItems<T>] = {};
    const auto add = [&](int64_t line) OPWRIGHT_CPU_TERM {
      const int64_t first = line * kLineItems<T>;
      __builtin_prefetch(x + n + std::max(first, fetched * kLineItems<T>));
#pragma omp simd
      for (int64_t i = 0; i < kLineItems<T>; ++i) {
        part[i] += PowerOf<T, kLog>(x[first + i], maximum, kept + first + i);
      }
    };
    int64_t line = begin;
    for (; line < std::min(end, both); ++line) {
      add(line);
      waiting->StoreLine();
    }
    for (; line < end; ++line) add(line);
    for (int64_t i = 0; i < kLineItems<T>; ++i) sum[i] += part[i];
  }
  for (int64_t half = kLineItems<T> / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  T total = sum[0];
  for (int64_t i = lines * kLineItems<T>; i < n; ++i) {
    total += PowerOf<T, kLog>(x[i], maximum, kept + i);
  }
  return total;
}

template <typename T, bool kLog, typename Store>
OPWRIGHT_CPU_INLINE void StreamRows(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                    T* totals, T* buffer) {
  using Result = LineResult<T, kLog>;
  using Row = StreamedRow<T, Store, Result>;
  T* kept = buffer;
  T* before = buffer + StreamSoftmaxBuffer<T>(n) / 2;
  Row waiting(out, 0, Result{x, T(0), T(0)});
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    const T maximum = FindMaximum(x, n, &waiting);
    const T total = AddPowers<T, kLog>(x, n, maximum, kept, &waiting);
    waiting.Finish();
    if (maxima != nullptr) maxima[row] = maximum;
    if (totals != nullptr) totals[row] = total;
    const T factor = kLog ? functors::Log(total) : T(1) / total;
    waiting = Row(out, n, Result{kLog ? x : kept, maximum, factor});
    std::swap(kept, before);
  }
  waiting.Finish();
}

template <typename T>
using SoftmaxStreamRows = void (*)(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                   T* totals, T* buffer);

template <typename T, bool kLog>
void StreamRowsOldest(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima, T* totals,
                      T* buffer) {
  StreamRows<T, kLog, LineStore>(x, n_rows, n, out, maxima, totals, buffer);
}
template <typename T, bool kLog>
OPWRIGHT_CPU_AVX2 void StreamRowsAvx2(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                      T* totals, T* buffer) {
  StreamRows<T, kLog, HalfLineStore>(x, n_rows, n, out, maxima, totals, buffer);
}
template <typename T, bool kLog>
OPWRIGHT_CPU_AVX512 void StreamRowsAvx512(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                          T* totals, T* buffer) {
  StreamRows<T, kLog, WholeLineStore>(x, n_rows, n, out, maxima, totals, buffer);
}

}  // namespace

template <typename T, bool kLog>
void StreamSoftmax(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima, T* totals, T* buffer) {
  static const auto rows = ForThisProcessor<SoftmaxStreamRows<T>>(
      &StreamRowsOldest<T, kLog>, &StreamRowsAvx2<T, kLog>, &StreamRowsAvx512<T, kLog>);
  rows(x, n_rows, n, out, maxima, totals, buffer);
  StreamFence();
}

template void StreamSoftmax<float, false>(const float*, int64_t, int64_t, float*, float*, float*,
                                          float*);
template void StreamSoftmax<float, true>(const float*, int64_t, int64_t, float*, float*, float*,
                                         float*);
template void StreamSoftmax<double, false>(const double*, int64_t, int64_t, double*, double*,
                                           double*, double*);
template void StreamSoftmax<double, true>(const double*, int64_t, int64_t, double*, double*,
                                          double*, double*);

}  // namespace opwright_cpu
