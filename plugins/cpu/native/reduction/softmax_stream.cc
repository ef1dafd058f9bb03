#include "reduction/softmax_stream.h"

#include <opwright/functors.h>

#include <algorithm>

#include "common/clones.h"
#include "reduction/blocks.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// exp(x - maximum); what is kept for the result is that, or with kLog x - maximum.
template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE T PowerOf(T x, T maximum, T* kept) {
  const T shifted = x - maximum;
  const T power = functors::ExpNonPositive(shifted);
  *kept = kLog ? shifted : power;
  return power;
}

template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE T ResultOf(T kept, T factor) {
  return kLog ? kept - factor : kept * factor;
}

// A line whose sum is known, and that waits to be stored: from `head` on are `whole` lines of the
// cache.
template <typename T>
struct Waiting {
  const T* kept;
  T* out;
  T factor;
  int64_t head;
  int64_t whole;
};

template <typename T>
constexpr int64_t kItems = kLineBytes / static_cast<int64_t>(sizeof(T));

template <typename T, bool kLog, typename Store>
OPWRIGHT_CPU_INLINE void StoreLine(const Waiting<T>& waiting, int64_t line) {
  const int64_t first = waiting.head + line * kItems<T>;
  alignas(kLineBytes) T results[kItems<T>];
#pragma omp simd
  for (int64_t i = 0; i < kItems<T>; ++i) {
    results[i] = ResultOf<T, kLog>(waiting.kept[first + i], waiting.factor);
  }
  Store::Store(reinterpret_cast<const char*>(results),
               reinterpret_cast<char*>(waiting.out + first));
}

// Stores what AddPowers did not, from the cache's line `stored` on.
template <typename T, bool kLog, typename Store>
OPWRIGHT_CPU_INLINE void StoreRest(const Waiting<T>& waiting, int64_t n, int64_t stored) {
  for (int64_t line = stored; line < waiting.whole; ++line) {
    StoreLine<T, kLog, Store>(waiting, line);
  }
  const auto store = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      waiting.out[i] = ResultOf<T, kLog>(waiting.kept[i], waiting.factor);
    }
  };
  store(0, waiting.head);
  store(waiting.head + waiting.whole * kItems<T>, n);
}

// Sum of exp(x - maximum). Between them the waiting line is stored, as far as this one reaches, and
// the next one is asked for: memory is written and read while the powers are computed.
template <typename T, bool kLog, typename Store>
OPWRIGHT_CPU_INLINE T AddPowers(const T* x, int64_t n, T maximum, T* kept,
                                const Waiting<T>& waiting) {
  const int64_t lines = n / kItems<T>;
  const int64_t both = std::min(lines, waiting.whole);
  alignas(kLineBytes) T sum[kItems<T>] = {};
  for (int64_t begin = 0; begin < lines; begin += kSumBlock / kItems<T>) {
    const int64_t end = std::min(begin + kSumBlock / kItems<T>, lines);
    alignas(kLineBytes) T part[kItems<T>] = {};
    const auto add = [&](int64_t line) OPWRIGHT_CPU_TERM {
#pragma omp simd
      for (int64_t i = 0; i < kItems<T>; ++i) {
        part[i] += PowerOf<T, kLog>(x[line * kItems<T> + i], maximum, kept + line * kItems<T> + i);
      }
    };
    int64_t line = begin;
    for (; line < std::min(end, both); ++line) {
      __builtin_prefetch(x + n + line * kItems<T>);
      add(line);
      StoreLine<T, kLog, Store>(waiting, line);
    }
    for (; line < end; ++line) add(line);
    for (int64_t i = 0; i < kItems<T>; ++i) sum[i] += part[i];
  }
  T total = 0;
  for (int64_t i = 0; i < kItems<T>; ++i) total += sum[i];
  for (int64_t i = lines * kItems<T>; i < n; ++i) {
    total += PowerOf<T, kLog>(x[i], maximum, kept + i);
  }
  return total;
}

template <typename T, bool kLog, typename Store>
OPWRIGHT_CPU_INLINE void StreamRows(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                    T* totals, T* buffer) {
  T* kept = buffer;
  T* before = buffer + StreamSoftmaxBuffer<T>(n) / 2;
  Waiting<T> waiting{before, out, 0, 0, 0};
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    const T maximum = MaxOf(x, n);
    const T total = AddPowers<T, kLog, Store>(x, n, maximum, kept, waiting);
    if (row > 0) {
      StoreRest<T, kLog, Store>(waiting, n, std::min(waiting.whole, n / kItems<T>));
    }
    if (maxima != nullptr) maxima[row] = maximum;
    if (totals != nullptr) totals[row] = total;
    const int64_t head = std::min(BytesToLine(out) / static_cast<int64_t>(sizeof(T)), n);
    waiting = {kept, out, kLog ? functors::Log(total) : T(1) / total, head, (n - head) / kItems<T>};
    std::swap(kept, before);
  }
  if (n_rows > 0) StoreRest<T, kLog, Store>(waiting, n, 0);
}

template <typename T>
using Rows = void (*)(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima, T* totals,
                      T* buffer);

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
  static const auto rows = ForThisProcessor<Rows<T>>(
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
