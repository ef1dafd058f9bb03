// argmax and argmin along one axis. The first of equal elements wins; NaN precedes every number.
#include <algorithm>

#include "common/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/stream.h"
#include "common/widened.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Bytes per block. Only the block that contains the extremum is searched for its position.
constexpr int64_t kBlockBytes = 1024;
constexpr int64_t kScan = 64;
constexpr int64_t kArgmaxStrip = 128;

template <typename T, bool kMax>
OPWRIGHT_CPU_INLINE bool TakesPlaceOf(T x, T best) {
  // x != x is always false for integers. Bitwise operators avoid branches.
  return Extremum<T, kMax>::IsBetter(x, best) | ((x != x) & (best == best));
}

// A block cannot contain the first position unless its extremum is better than the best so far.
// Prefetches beyond this line, so memory is not idle during a position search.
template <typename T, bool kMax>
OPWRIGHT_CPU_INLINE int64_t FindPosition(const T* x, int64_t n) {
  constexpr int64_t kBlock = kBlockBytes / static_cast<int64_t>(sizeof(T));
  T best = x[0];
  int64_t block = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    FetchAhead(x + begin, kBlockBytes);
    const T found = Extremum<T, kMax>::Row(x + begin, std::min(kBlock, n - begin));
    if (begin == 0 || TakesPlaceOf<T, kMax>(found, best)) {
      best = found;
      block = begin;
    }
  }
  const auto is_best = [=](int64_t i) OPWRIGHT_CPU_TERM {
    return (x[i] == best) | ((x[i] != x[i]) & (best != best));
  };
  // Elements are compared in groups, so there is one branch per group instead of one per element.
  int64_t i = block;
  for (; i + kScan <= n; i += kScan) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t j = i; j < i + kScan; ++j) found |= is_best(j);
    if (found != 0) break;
  }
  while (!is_best(i)) ++i;
  return i;
}

template <typename T, bool kMax>
OPWRIGHT_CPU_INLINE void FindRows(const T* x, int64_t n_rows, int64_t n, int64_t* out) {
  for (int64_t row = 0; row < n_rows; ++row) out[row] = FindPosition<T, kMax>(x + row * n, n);
}

template <typename T, bool kMax>
OPWRIGHT_CPU_CLONES void FindRowsCloned(const T* x, int64_t n_rows, int64_t n, int64_t* out) {
  FindRows<T, kMax>(x, n_rows, n, out);
}

// Processes the lines [begin, end), side by side in strips.
template <typename T, bool kMax>
void FindColumns(const T* x, const Lines& lines, int64_t begin, int64_t end, int64_t* out) {
  while (begin < end) {
    const int64_t column = begin % lines.inner;
    const int64_t width = std::min(std::min(lines.inner - column, end - begin), kArgmaxStrip);
    const T* from = x + begin / lines.inner * lines.length * lines.inner + column;
    T best[kArgmaxStrip];
    std::copy(from, from + width, best);
    int64_t* position = out + begin;
    std::fill(position, position + width, int64_t{0});
    for (int64_t i = 1; i < lines.length; ++i) {
      const T* row = from + i * lines.inner;
      for (int64_t c = 0; c < width; ++c) {
        const bool takes = TakesPlaceOf<T, kMax>(row[c], best[c]);
        best[c] = takes ? row[c] : best[c];
        position[c] = takes ? i : position[c];
      }
    }
    begin += width;
  }
}

// Slots: x; out.
template <typename T, bool kMax>
struct PositionKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(StreamNs(lines_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (lines_.numel() == 0) return opwright::Status::Ok();  // no lines; empty lines are rejected
    const auto* x = static_cast<const T*>(ctx.input(0).raw());
    int64_t* out = ctx.output(0).data<int64_t>();
    const int64_t n = lines_.length;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / n);
    ParallelFor(ctx.n_threads(), lines_.count(), grain, 8, [=](int64_t begin, int64_t end) {
      if (lines_.inner != 1) {
        FindColumns<T, kMax>(x, lines_, begin, end, out);
      } else if constexpr (std::is_floating_point_v<T>) {
        FindRowsCloned<T, kMax>(x + begin * n, end - begin, n, out + begin);
      } else {
        FindRows<T, kMax>(x + begin * n, end - begin, n, out + begin);
      }
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

// bool is computed as a byte that is 0 or 1.
template <typename T>
using Comparable = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
template <typename T>
using ArgmaxKernel = PositionKernel<Comparable<T>, true>;
template <typename T>
using ArgminKernel = PositionKernel<Comparable<T>, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("argmax", "cpu", opwright_cpu::ArgmaxKernel, OPWRIGHT_CPU_NUMBERS,
                             bool);
OPWRIGHT_CPU_REGISTER_WIDENED("argmax", opwright_cpu::ArgmaxKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("argmin", "cpu", opwright_cpu::ArgminKernel, OPWRIGHT_CPU_NUMBERS,
                             bool);
OPWRIGHT_CPU_REGISTER_WIDENED("argmin", opwright_cpu::ArgminKernel);
