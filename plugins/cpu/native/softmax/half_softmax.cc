// softmax and log_softmax of 16-bit floats along rows, and their gradients. Blocks of rows that fit
// into the L1 cache are widened, computed in float and rounded.
#include "common/attributes.h"
#include "common/half_rows.h"
#include "common/stream.h"
#include "reduction/half_blocks.h"
#include "softmax/softmax_grad.h"
#include "softmax/softmax_lines.h"

namespace opwright_cpu {
namespace {

template <bool kLog>
struct HalfSoftmaxKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    OPWRIGHT_RETURN_IF_ERROR(blocks_.Make(lines_));
    rows_ = HalfRowsOf(ctx.input(0).dtype());
    whole_ = SoftmaxLines<float, kLog>(Lines{blocks_.at_once, lines_.length, 1}, 1);
    rest_ = SoftmaxLines<float, kLog>(Lines{lines_.outer % blocks_.at_once, lines_.length, 1}, 1);
    ctx.SetEstimate(static_cast<uint64_t>(lines_.numel()) / 2 + 20);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const char* x = static_cast<const char*>(ctx.input(0).raw());
    char* out = static_cast<char*>(ctx.output(0).raw());
    blocks_.ForEach(ctx.n_threads(), [=](int64_t row, int64_t n_rows) {
      const int64_t offset = row * blocks_.length * kHalfBytes;
      alignas(64) float wide[kWidestRow];
      const auto& softmax = n_rows == blocks_.at_once ? whole_ : rest_;
      rows_.widen(x + offset, wide, n_rows * blocks_.length);
      softmax.Run(wide, wide, LineSums<float>{nullptr, nullptr}, nullptr, 1);
      rows_.narrow(wide, out + offset, n_rows * blocks_.length);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
  HalfBlocks blocks_;
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
    return blocks_.Make(lines_);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const char* out = static_cast<const char*>(ctx.input(1).raw());
    const char* grad = static_cast<const char*>(ctx.input(2).raw());
    char* x_grad = static_cast<char*>(ctx.output(0).raw());
    blocks_.ForEach(ctx.n_threads(), [=](int64_t row, int64_t n_rows) {
      const int64_t offset = row * blocks_.length * kHalfBytes;
      alignas(64) float wide_out[kWidestRow];
      alignas(64) float wide_grad[kWidestRow];
      const int64_t n = n_rows * blocks_.length;
      rows_.widen(out + offset, wide_out, n);
      rows_.widen(grad + offset, wide_grad, n);
      SoftmaxGradRows<kLog>(wide_out, wide_grad, n_rows, blocks_.length, wide_grad);
      rows_.narrow(wide_grad, x_grad + offset, n);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
  HalfBlocks blocks_;
  HalfRows rows_;
};

template <typename>
using SoftmaxOfHalves = HalfSoftmaxKernel<false>;
template <typename>
using LogSoftmaxOfHalves = HalfSoftmaxKernel<true>;
template <typename>
using SoftmaxGradOfHalves = HalfSoftmaxGradKernel<false>;
template <typename>
using LogSoftmaxGradOfHalves = HalfSoftmaxGradKernel<true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("softmax", "cpu", opwright_cpu::SoftmaxOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("log_softmax", "cpu", opwright_cpu::LogSoftmaxOfHalves,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("softmax_grad", "cpu", opwright_cpu::SoftmaxGradOfHalves,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("log_softmax_grad", "cpu", opwright_cpu::LogSoftmaxGradOfHalves,
                             OPWRIGHT_CPU_HALVES);
