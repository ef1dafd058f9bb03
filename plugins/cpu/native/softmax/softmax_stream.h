// Softmax of lines whose results bypass the caches.
#ifndef OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_
#define OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_

#include <cstdint>

#include "common/stream.h"

namespace opwright_cpu {

// Size of the longest lines of StreamSoftmax; three such lines fit into the L2 cache.
constexpr int64_t kStreamedLineBytes = int64_t{128} << 10;

// The number of buffer elements for lines of length n.
template <typename T>
constexpr int64_t StreamSoftmaxBuffer(int64_t n) {
  constexpr int64_t kItems = kLineBytes / static_cast<int64_t>(sizeof(T));
  return 2 * ((n + kItems - 1) & -kItems);
}

// Computes out = exp(x - m) / s, or x - m - ln(s) with kLog, for n_rows contiguous lines of n
// elements. Writes m and s of each line to maxima and totals unless these are NULL. `out` must not
// be `x`.
template <typename T, bool kLog>
void StreamSoftmax(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima, T* totals, T* buffer);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_
