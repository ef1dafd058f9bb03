// Code shared by batch_norm and its gradient. An array is [batch, channels, inner]; a channel
// consists of `batch` runs of `inner` elements. Threads divide the channels. If inner is 1,
// however, adjacent channels are contiguous, and threads divide rows of all channels to read memory
// in order.
#ifndef OPWRIGHT_CPU_NORMALIZATION_BATCH_NORM_H_
#define OPWRIGHT_CPU_NORMALIZATION_BATCH_NORM_H_

#include <algorithm>
#include <limits>
#include <string>

#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "common/element.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {

// Number of rows that are summed separately so that long columns lose less precision.
constexpr int64_t kRows = 64;

// The share of one thread: either a range of rows, for all channels, or a range of channels, for
// all rows.
struct Extent {
  Part rows;
  Part channels;
};

// Calls write(i, c) for all elements; i is the index in the complete array, and c is the channel.
template <typename Write>
OPWRIGHT_CPU_INLINE void ForElements(const Lines& lines, const Extent& extent, const Write& write) {
  const int64_t inner = lines.inner, stride = lines.length * inner;
  for (int64_t row = extent.rows.begin; row < extent.rows.end; ++row) {
    if (inner == 1) {
      const int64_t first = row * stride;
#pragma omp simd
      for (int64_t c = extent.channels.begin; c < extent.channels.end; ++c) write(first + c, c);
      continue;
    }
    for (int64_t c = extent.channels.begin; c < extent.channels.end; ++c) {
      const int64_t first = row * stride + c * inner;
#pragma omp simd
      for (int64_t i = 0; i < inner; ++i) write(first + i, c);
    }
  }
}

// Chunks of rows of adjacent channels. The number of chunks depends only on the array, so sums do
// not depend on the number of threads. Each chunk has kArrays values per channel in the workspace.
class RowPieces {
 public:
  static constexpr int64_t kArrays = 4;

  RowPieces() = default;
  explicit RowPieces(const Lines& lines) : lines_(lines) {
    constexpr int64_t kMost = 32, kLeastRows = 8;
    each_ = std::max(kLeastRows, (lines.outer + kMost - 1) / kMost);
    count_ = (lines.outer + each_ - 1) / each_;
  }

  int64_t count() const { return count_; }
  int64_t rows_of(int64_t i) const { return extent_of(i).rows.end - extent_of(i).rows.begin; }
  Extent extent_of(int64_t i) const {
    return {{i * each_, std::min((i + 1) * each_, lines_.outer)}, {0, lines_.length}};
  }
  // Returns the number of workspace elements, which is kArrays per channel and chunk.
  int64_t numel() const { return count_ * kArrays * lines_.length; }

  // Calls function(i) for each chunk.
  template <typename Function>
  void ForEach(int32_t n_threads, const Function& function) const {
    const int64_t grain = kElementGrain / std::max<int64_t>(each_ * lines_.length, 1) + 1;
    ParallelFor(n_threads, count_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) function(i);
    });
  }

 private:
  Lines lines_;
  int64_t each_ = 0;
  int64_t count_ = 0;
};

// Calls function(extent) for one channel after another so that reread data is still cached.
template <typename Function>
void ForChannels(int32_t n_threads, const Lines& lines, const Function& function) {
  const int64_t grain = kElementGrain / std::max<int64_t>(lines.count(), 1) + 1;
  ParallelFor(n_threads, lines.length, grain, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) function(Extent{{0, lines.outer}, {c, c + 1}});
  });
}

// An activation that clips elements to two bounds. A NaN bound has no effect, since comparisons
// with it are false. NaN elements stay NaN.
template <typename T>
struct Bounds {
  T low = std::numeric_limits<T>::quiet_NaN();
  T high = std::numeric_limits<T>::quiet_NaN();

  opwright::Status Parse(const std::string& activation) {
    if (activation == "relu" || activation == "relu6") low = T(0);
    if (activation == "relu6") high = T(6);
    if (activation.empty() || low == T(0)) return opwright::Status::Ok();
    return opwright::Status::Refused("does not support activation ", activation);
  }
  OPWRIGHT_CPU_INLINE T Cut(T value) const {
    const T above = value < low ? low : value;
    return above > high ? high : above;
  }
  // The gradient at the bounds is 0.
  OPWRIGHT_CPU_INLINE T Gradient(T value, T grad) const {
    return value <= low || value >= high ? T(0) : grad;
  }
};

// The statistics, scale and bias of each channel.
template <typename T>
struct Channels {
  const T* mean;
  const T* factor;
  const T* bias;

  OPWRIGHT_CPU_INLINE T Normalized(T x, int64_t c) const {
    return (x - mean[c]) * factor[c] + bias[c];
  }
};

#define OPWRIGHT_CPU_REGISTER_NORM(type, Kernel)                    \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", Kernel, float, double); \
  OPWRIGHT_CPU_REGISTER_WIDENED(type, Kernel)

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_NORMALIZATION_BATCH_NORM_H_
