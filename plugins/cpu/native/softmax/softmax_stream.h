// Softmax of lines whose results go past the caches.
#ifndef OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_
#define OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_

#include <cstdint>

#include "common/stream.h"

namespace opwright_cpu {

// The longest lines of StreamSoftmax: three must fit the second cache.
constexpr int64_t kStreamedLineBytes = int64_t{128} << 10;

// Elements of the buffer for lines of length n.
template <typename T>
constexpr int64_t StreamSoftmaxBuffer(int64_t n) {
  constexpr int64_t kItems = kLineBytes / static_cast<int64_t>(sizeof(T));
  return 2 * ((n + kItems - 1) & -kItems);
}

// out = exp(x - m) / s, or with kLog x - m - ln(s), for n_rows lines of n elements side by side;
// m and s of each line also to maxima and totals, unless these are NULL. `out` must not be `x`.
template <typename T, bool kLog>
void StreamSoftmax(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima, T* totals, T* buffer);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SOFTMAX_SOFTMAX_STREAM_H_
