// softmax and log_softmax of 16-bit floats along rows, and their gradients: as many rows as fit the
// first-level cache are widened, computed in float and rounded. Longer rows, and lines whose
// elements do not lie side by side, are left to the kernels for float.
#include <algorithm>

#include "common/half_rows.h"
#include "common/parallel.h"
#include "reduction/attributes.h"
#include "reduction/softmax_grad.h"
#include "reduction/softmax_lines.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kWide = 4096;
constexpr int64_t kItemBytes = 2;

// Rows that are computed at once, 0 where a row is too long.
struct RowBlocks {
  int64_t outer = 0;
  int64_t length = 0;
  int64_t at_once = 0;

  // Calls function(offset, n_rows) for blocks of rows; `offset` counts elements.
  template <typename Function>
  void ForEach(int32_t n_threads, const Lines& lines, const Function& function) const {
    const int64_t grain = std::max(LineGrain(lines), at_once);
    ParallelFor(n_threads, outer, grain, at_once, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row += at_once) {
        function(row * length, std::min(at_once, end - row));
      }
    });
  }
};

opwright::Status MakeBlocks(const Lines& lines, RowBlocks* blocks) {
  if (lines.inner != 1 || lines.length > kWide) {
    return opwright::Status::Refused("is for rows of at most ", kWide, " elements, got ",
                                     lines.length, " elements that lie ", lines.inner, " apart");
  }
  *blocks = {lines.length == 0 ? 0 : lines.outer, lines.length,
             kWide / std::max<int64_t>(lines.length, 1)};
  return opwright::Status::Ok();
}

template <bool kLog>
struct HalfSoftmaxKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    OPWRIGHT_RETURN_IF_ERROR(MakeBlocks(lines_, &blocks_));
    rows_ = HalfRowsOf(ctx.input(0).dtype());
    whole_ = SoftmaxLines<float, kLog>(Lines{blocks_.at_once, lines_.length, 1}, 1);
    rest_ = SoftmaxLines<float, kLog>(Lines{lines_.outer % blocks_.at_once, lines_.length, 1}, 1);
    ctx.SetEstimate(static_cast<uint64_t>(lines_.numel()) / 2 + 20);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const char* x = static_cast<const char*>(ctx.input(0).raw());
    char* out = static_cast<char*>(ctx.output(0).raw());
    blocks_.ForEach(ctx.n_threads(), lines_, [=](int64_t offset, int64_t n_rows) {
      alignas(64) float wide[kWide];
      const auto& softmax = n_rows == blocks_.at_once ? whole_ : rest_;
      rows_.widen(x + offset * kItemBytes, wide, n_rows * blocks_.length);
      softmax.Run(wide, wide, LineSums<float>{nullptr, nullptr}, nullptr, 1);
      rows_.narrow(wide, out + offset * kItemBytes, n_rows * blocks_.length);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
  RowBlocks blocks_;
  HalfRows rows_;
  SoftmaxLines<float, kLog> whole_;
  SoftmaxLines<float, kLog> rest_;
};

// Slots: x (its shape only), out, out_grad.
template <bool kLog>
struct HalfSoftmaxGradKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"x_grad", "out"}, {"x_grad", "out_grad"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(1).shape(), attrs.axis);
    rows_ = HalfRowsOf(ctx.input(1).dtype());
    ctx.SetEstimate(StreamNs(lines_.numel() * (kLog ? 12 : 6), ctx.n_threads()));
    return MakeBlocks(lines_, &blocks_);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const char* out = static_cast<const char*>(ctx.input(1).raw());
    const char* grad = static_cast<const char*>(ctx.input(2).raw());
    char* x_grad = static_cast<char*>(ctx.output(0).raw());
    blocks_.ForEach(ctx.n_threads(), lines_, [=](int64_t offset, int64_t n_rows) {
      alignas(64) float wide_out[kWide];
      alignas(64) float wide_grad[kWide];
      const int64_t n = n_rows * blocks_.length;
      rows_.widen(out + offset * kItemBytes, wide_out, n);
      rows_.widen(grad + offset * kItemBytes, wide_grad, n);
      SoftmaxGradRows<kLog>(wide_out, wide_grad, n_rows, blocks_.length, wide_grad);
      rows_.narrow(wide_grad, x_grad + offset * kItemBytes, n);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
  RowBlocks blocks_;
  HalfRows rows_;
};

template <typename>
using SoftmaxKernel = HalfSoftmaxKernel<false>;
template <typename>
using LogSoftmaxKernel = HalfSoftmaxKernel<true>;
template <typename>
using SoftmaxGradKernel = HalfSoftmaxGradKernel<false>;
template <typename>
using LogSoftmaxGradKernel = HalfSoftmaxGradKernel<true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("softmax", "cpu", opwright_cpu::SoftmaxKernel, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("log_softmax", "cpu", opwright_cpu::LogSoftmaxKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("softmax_grad", "cpu", opwright_cpu::SoftmaxGradKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("log_softmax_grad", "cpu", opwright_cpu::LogSoftmaxGradKernel,
                             OPWRIGHT_CPU_HALVES);
