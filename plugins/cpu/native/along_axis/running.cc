// Running extrema with their positions, and logcumsumexp.
#include <opwright/functors.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "along_axis/each_line.h"
#include "common/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Number of adjacent lines processed together; their best elements fit into the L1 cache.
constexpr int64_t kRunningStrip = 256;

// Resolves ties like torch.cummax. The last of equal elements wins, and so does the last NaN.
template <typename T, bool kLargest>
OPWRIGHT_CPU_INLINE bool IsNewBest(T x, T best) {
  const bool is_better = kLargest ? x >= best : x <= best;
  return (x != x) | is_better;
}

// Processes adjacent lines together, element by element.
template <typename T, bool kLargest>
OPWRIGHT_CPU_CLONES void RunExtrema(const T* x, int64_t n, int64_t stride, int64_t width, T* out,
                                    int64_t* indices) {
  T best[kRunningStrip];
  int64_t places[kRunningStrip];
  std::copy_n(x, width, best);
  std::fill_n(places, width, 0);
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + i * stride;
    T* to = out + i * stride;
    for (int64_t c = 0; c < width; ++c) {
      const bool is_new = IsNewBest<T, kLargest>(from[c], best[c]);
      best[c] = is_new ? from[c] : best[c];
      places[c] = is_new ? i : places[c];
      to[c] = best[c];
    }
    if (indices != nullptr) std::copy_n(places, width, indices + i * stride);
  }
}

// Processes one contiguous line.
template <typename T, bool kLargest>
void RunExtremaOfLine(const T* x, int64_t n, T* out, int64_t* indices) {
  T best = x[0];
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_new = IsNewBest<T, kLargest>(x[i], best);
    best = is_new ? x[i] : best;
    place = is_new ? i : place;
    out[i] = best;
    if (indices != nullptr) indices[i] = place;
  }
}

// Slots: x; out, indices.
template <typename T, bool kLargest>
struct ExtremaKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    const int64_t bytes = static_cast<int64_t>(2 * sizeof(T) + sizeof(int64_t)) * lines_.numel();
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (lines_.numel() == 0) return opwright::Status::Ok();
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    int64_t* indices = ctx.has_output(1) ? ctx.output(1).data<int64_t>() : nullptr;
    const int64_t n = lines_.length, inner = lines_.inner;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / n);
    ParallelFor(ctx.n_threads(), lines_.count(), grain, 8, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t column = begin % inner;
        const int64_t width = std::min(std::min(inner - column, end - begin), kRunningStrip);
        const int64_t at = PlaceOf(lines_, begin, 0);
        int64_t* places = indices == nullptr ? nullptr : indices + at;
        if (inner == 1) {
          RunExtremaOfLine<T, kLargest>(x + at, n, out + at, places);
        } else {
          RunExtrema<T, kLargest>(x + at, n, inner, width, out + at, places);
        }
        begin += width;
      }
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

template <typename T>
using CummaxKernel = ExtremaKernel<T, true>;
template <typename T>
using CumminKernel = ExtremaKernel<T, false>;

// ---- logcumsumexp

struct LogCumsumAttrs {
  int64_t axis;
  bool reverse;
  OPWRIGHT_ATTRIBUTES(axis, reverse);
};

constexpr int64_t kLogBlock = 256;

// Returns e**(x - y), or 1 if both are the same infinity.
template <typename T>
OPWRIGHT_CPU_CLONES void PowersOfDifferences(const T* x, const T* y, int64_t n, T* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T difference = x[i] == y[i] ? T(0) : x[i] - y[i];
    out[i] = functors::Exp(difference);
  }
}

// Returns e**(x - out), which is NaN if both are infinite, except 0 if x is minus infinity.
template <typename T>
OPWRIGHT_CPU_CLONES void Shares(const T* x, const T* out, int64_t n, T* shares) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const bool is_none = x[i] == -std::numeric_limits<T>::infinity();
    shares[i] = functors::Exp(is_none ? x[i] : x[i] - out[i]);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddLogarithms(const T* x, const T* sums, int64_t n, T* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + functors::Log(sums[i]);
}

// The sum is stored relative to e**top, where top (in `tops`) is the largest element so far. Only
// the additions form a dependency chain; powers and logarithms are computed block by block.
template <typename T>
void LogCumsumLine(const T* x, int64_t n, int64_t step, T* out) {
  T values[kLogBlock], tops[kLogBlock + 1], kept[kLogBlock], added[kLogBlock];
  T sum = T(0);
  tops[0] = -std::numeric_limits<T>::infinity();
  for (int64_t begin = 0; begin < n; begin += kLogBlock) {
    const int64_t count = std::min(kLogBlock, n - begin);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = x[(begin + i) * step];
      tops[i + 1] = functors::Maximum(tops[i], values[i]);
    }
    PowersOfDifferences(tops, tops + 1, count, kept);
    PowersOfDifferences(values, tops + 1, count, added);
    for (int64_t i = 0; i < count; ++i) {
      sum = sum * kept[i] + added[i];
      values[i] = sum;
    }
    AddLogarithms(tops + 1, values, count, values);
    for (int64_t i = 0; i < count; ++i) out[(begin + i) * step] = values[i];
    tops[0] = tops[count];
  }
}

// The gradient of x is the sum of out_grad * e**(x - out) over the position of x and all later
// positions. `total` is the sum of out_grad * e**-out, multiplied by e**out at the current
// position. No factor exceeds 1, since out never decreases.
template <typename T>
void LogCumsumGradLine(const T* x, const T* out, const T* out_grad, int64_t n, int64_t step,
                       T* x_grad) {
  T values[kLogBlock], sums[kLogBlock + 1], kept[kLogBlock], shares[kLogBlock];
  T total = T(0);
  for (int64_t end = n; end > 0; end -= kLogBlock) {
    const int64_t begin = std::max<int64_t>(0, end - kLogBlock), count = end - begin;
    for (int64_t i = 0; i < count; ++i) {
      values[i] = x[(begin + i) * step];
      sums[i] = out[(begin + i) * step];
    }
    sums[count] = end < n ? out[end * step] : sums[count - 1];
    PowersOfDifferences(sums, sums + 1, count, kept);
    Shares(values, sums, count, shares);
    for (int64_t i = count - 1; i >= 0; --i) {
      total = total * kept[i] + out_grad[(begin + i) * step];
      x_grad[(begin + i) * step] = total * shares[i];
    }
  }
}

// Slots: x; out.
template <typename T>
struct LogCumsumKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LogCumsumAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(StreamNs(50 * lines_.numel(), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LogCumsumAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    EachLine(lines_, attrs.reverse, ctx.n_threads(), [&](int64_t at, int64_t step) {
      LogCumsumLine(x + at, lines_.length, step, out + at);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

// Slots: x, out, out_grad; x_grad.
template <typename T>
struct LogCumsumGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LogCumsumAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(StreamNs(50 * lines_.numel(), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LogCumsumAttrs& attrs) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* x = ctx.input(0).data<T>();
    const T* out = ctx.input(1).data<T>();
    const T* out_grad = ctx.input(2).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    EachLine(lines_, attrs.reverse, ctx.n_threads(), [&](int64_t at, int64_t step) {
      LogCumsumGradLine(x + at, out + at, out_grad + at, lines_.length, step, x_grad + at);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cummax", "cpu", opwright_cpu::CummaxKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("cummax", opwright_cpu::CummaxKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("cummin", "cpu", opwright_cpu::CumminKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("cummin", opwright_cpu::CumminKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("logcumsumexp", opwright_cpu::LogCumsumKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("logcumsumexp_grad", opwright_cpu::LogCumsumGradKernel);
