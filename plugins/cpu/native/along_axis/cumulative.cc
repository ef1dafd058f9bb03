// Running sums and products along one axis, and the gradient of the product.
#include <algorithm>
#include <type_traits>

#include "along_axis/attributes.h"
#include "along_axis/each_line.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Number of columns that are processed together; their running totals fit into the L1 cache.
constexpr int64_t kCumulativeStrip = 512;

template <typename Rule>
constexpr int kNeutral = std::is_same_v<Rule, Prod<decltype(Rule::Of(0))>> ? 1 : 0;

// Processes one contiguous line. Totals form a dependency chain; grouping by four leaves one
// dependent operation per four elements.
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void ScanRow(const In* x, int64_t n, int64_t step, bool exclusive, T* out) {
  T total = T(kNeutral<Rule>);
  int64_t i = 0;
  if (step > 0 && !exclusive) {
    for (; i + 4 <= n; i += 4) {
      const T a = Rule::Of(x[i]), b = Rule::Of(x[i + 1]), c = Rule::Of(x[i + 2]);
      const T ab = Rule::Combine(a, b), cd = Rule::Combine(c, Rule::Of(x[i + 3]));
      out[i] = Rule::Combine(total, a);
      out[i + 1] = Rule::Combine(total, ab);
      out[i + 2] = Rule::Combine(total, Rule::Combine(ab, c));
      total = Rule::Combine(total, Rule::Combine(ab, cd));
      out[i + 3] = total;
    }
  }
  for (; i < n; ++i) {
    const T joined = Rule::Combine(total, Rule::Of(x[i * step]));
    out[i * step] = exclusive ? total : joined;
    total = joined;
  }
}

// Processes adjacent columns of one outer block, row by row.
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void ScanColumns(const In* x, int64_t n, int64_t stride, int64_t width,
                                     bool exclusive, T* out) {
  T total[kCumulativeStrip];
  for (int64_t c = 0; c < width; ++c) total[c] = T(kNeutral<Rule>);
  for (int64_t i = 0; i < n; ++i) {
    const In* from = x + i * stride;
    T* to = out + i * stride;
    if (exclusive) {
      for (int64_t c = 0; c < width; ++c) {
        const T joined = Rule::Combine(total[c], Rule::Of(from[c]));
        to[c] = total[c];
        total[c] = joined;
      }
    } else {
      for (int64_t c = 0; c < width; ++c) {
        total[c] = Rule::Combine(total[c], Rule::Of(from[c]));
        to[c] = total[c];
      }
    }
  }
}

// Processes the lines [begin, end); a reversed line starts at its last element.
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void ScanLines(const In* x, const Lines& lines, const CumulativeAttrs& attrs,
                                   int64_t begin, int64_t end, T* out) {
  const int64_t n = lines.length, inner = lines.inner;
  const int64_t turn = attrs.reverse ? -1 : 1;
  while (begin < end) {
    const int64_t column = begin % inner;
    const int64_t width = std::min(std::min(inner - column, end - begin), kCumulativeStrip);
    const int64_t at = begin / inner * n * inner + column + (attrs.reverse ? (n - 1) * inner : 0);
    if (inner == 1) {
      ScanRow<T, Rule>(x + at, n, turn, attrs.exclusive, out + at);
    } else {
      ScanColumns<T, Rule>(x + at, n, turn * inner, width, attrs.exclusive, out + at);
    }
    begin += width;
  }
}

// Slots: x; out.
template <typename T, typename Rule, typename In>
struct CumulativeKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CumulativeAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    const auto bytes = static_cast<int64_t>(sizeof(T) + sizeof(In)) * lines_.numel();
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CumulativeAttrs& attrs) const {
    if (lines_.numel() == 0) return opwright::Status::Ok();
    const auto* x = static_cast<const In*>(ctx.input(0).raw());
    auto* out = static_cast<T*>(ctx.output(0).raw());
    const int64_t grain = std::max<int64_t>(1, kElementGrain / lines_.length);
    ParallelFor(ctx.n_threads(), lines_.count(), grain, 8, [&](int64_t begin, int64_t end) {
      ScanLines<T, Rule>(x, lines_, attrs, begin, end, out);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

template <typename T>
using CumsumKernel = CumulativeKernel<Wide<T>, Sum<Wide<T>>, T>;
template <typename T>
using CumprodKernel = CumulativeKernel<Wide<T>, Prod<Wide<T>>, T>;

// The gradient of element i is the product of the previous elements times rest[i] = out_grad[i] +
// x[i + 1] * rest[i + 1]. If out[i] excludes x[i], rest[i] begins with out_grad[i + 1] instead.
// This formula avoids a division, which would fail for zeros.
template <typename T>
OPWRIGHT_CPU_CLONES void CumprodGradLine(const T* x, const T* out_grad, int64_t n, int64_t step,
                                         bool exclusive, T* x_grad) {
  T before = T(1);
  for (int64_t i = 0; i < n; ++i) {
    x_grad[i * step] = before;
    before *= x[i * step];
  }
  T rest = T(0);
  for (int64_t i = n - 1; i >= 0; --i) {
    const int64_t at = i * step;
    if (!exclusive) rest += out_grad[at];
    x_grad[at] *= rest;
    rest *= x[at];
    if (exclusive) rest += out_grad[at];
  }
}

// Slots: x, out_grad; x_grad.
template <typename T>
struct CumprodGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CumulativeAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(
        StreamNs(5 * static_cast<int64_t>(sizeof(T)) * lines_.numel(), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CumulativeAttrs& attrs) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* x = ctx.input(0).data<T>();
    const T* out_grad = ctx.input(1).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    EachLine(lines_, attrs.reverse, ctx.n_threads(), [&](int64_t at, int64_t step) {
      CumprodGradLine(x + at, out_grad + at, lines_.length, step, attrs.exclusive, x_grad + at);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cumsum", "cpu", opwright_cpu::CumsumKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("cumsum", opwright_cpu::CumsumKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("cumprod", "cpu", opwright_cpu::CumprodKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("cumprod", opwright_cpu::CumprodKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("cumprod_grad", opwright_cpu::CumprodGradKernel);
