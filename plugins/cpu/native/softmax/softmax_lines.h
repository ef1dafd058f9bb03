// Softmax of all lines of an array, with the per-line values that losses use.
#ifndef OPWRIGHT_CPU_SOFTMAX_SOFTMAX_LINES_H_
#define OPWRIGHT_CPU_SOFTMAX_SOFTMAX_LINES_H_

#include <cstdint>

#include "reduction/layout.h"

namespace opwright_cpu {

// The maximum number of columns that are computed side by side.
constexpr int64_t kLineStrip = 2048;

// Returns the number of columns per strip. A strip fits into the L2 cache; if that is impossible,
// its rows fill pages.
inline int64_t StripWidth(const Lines& lines) {
  const int64_t fitting = 65536 / std::max<int64_t>(lines.length, 1);
  return fitting >= 128 ? std::min(fitting, kLineStrip) : kLineStrip;
}

// Calls function(first, width, offset) for strips of the lines [begin, end). The `width` lines from
// `first` on are adjacent and begin at element `offset`. Elements of a line are lines.inner apart.
template <typename Function>
void ForStrips(const Lines& lines, int64_t begin, int64_t end, const Function& function) {
  while (begin < end) {
    const int64_t column = begin % lines.inner;
    const int64_t width = std::min(std::min(lines.inner - column, end - begin), StripWidth(lines));
    function(begin, width, begin / lines.inner * lines.length * lines.inner + column);
    begin += width;
  }
}

// Returns the minimum number of lines per thread for which waking a thread pays off.
inline int64_t LineGrain(const Lines& lines) {
  return std::max<int64_t>(1, 8192 / std::max<int64_t>(lines.length, 1));
}

// Computes the maximum and sum(exp(x - maximum)) of each line; either output may be NULL.
template <typename T>
struct LineSums {
  T* maximum;
  T* total;
};

// Computes out = exp(x - m) / s, or x - m - ln(s) with kLog. `out` may be `x`.
template <typename T, bool kLog>
class SoftmaxLines {
 public:
  SoftmaxLines() = default;
  SoftmaxLines(const Lines& lines, int32_t n_threads);

  uint64_t workspace_bytes() const { return workspace_bytes_; }
  uint64_t EstimateNs(int32_t n_threads) const;

  void Run(const T* x, T* out, const LineSums<T>& sums, void* workspace, int32_t n_threads) const;

 private:
  void RunLong(const T* x, T* out, const LineSums<T>& sums, T* partial, int32_t n_threads) const;

  Lines lines_;
  int64_t n_chunks_ = 1;  // chunks per line, if lines are too long for the caches
  int64_t buffer_ = 0;    // buffer elements per thread, if results bypass the caches
  uint64_t workspace_bytes_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SOFTMAX_SOFTMAX_LINES_H_
