// sum, mean, max, min and sum_like of 16-bit floats, and the gradients of sum and mean. Data is
// read once, reduced in float, and rounded once.
#include <limits>

#include "reduction/attributes.h"
#include "reduction/broadcast.h"
#include "reduction/half_reducer.h"

namespace opwright_cpu {
namespace {

template <typename Rule, bool kMean, typename Attrs>
struct HalfReductionKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    const opwright::Shape shape = ctx.input(0).shape();
    rows_ = HalfRowsOf(ctx.input(0).dtype());
    n_ = ctx.output(0).numel();
    empty_ = shape.numel() == 0;
    if (empty_) {
      ctx.SetWorkspace(static_cast<uint64_t>(n_) * sizeof(float));
      return opwright::Status::Ok();
    }
    divisor_ = static_cast<float>(shape.numel() / n_);
    reducer_ = HalfReducer<Rule>(ctx.input(0).dtype(), shape.dims(), Reduced(ctx, attrs));
    ctx.SetWorkspace(reducer_.workspace_bytes());
    ctx.SetEstimate(StreamNs(2 * (shape.numel() + n_), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    auto* results = ctx.workspace<float>();
    if (empty_) {  // sums are 0; for an extremum, the output is empty as well
      std::fill_n(results, n_, kMean ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
    } else {
      results = reducer_.Run(ctx.input(0).raw(), results, ctx.n_threads());
      if constexpr (kMean) {
        for (int64_t i = 0; i < n_; ++i) results[i] /= divisor_;
      }
    }
    rows_.narrow(results, ctx.output(0).raw(), n_);
    return opwright::Status::Ok();
  }

 private:
  static std::vector<bool> Reduced(opwright::PrepareContext& ctx, const Attrs& attrs) {
    if constexpr (std::is_same_v<Attrs, AxesAttrs>) {
      return ReducedAxes(attrs.axis, ctx.input(0).rank());
    } else {
      return RepeatedAxes(ctx.output(0).shape(), ctx.input(0).shape());
    }
  }

  HalfReducer<Rule> reducer_;
  HalfRows rows_;
  int64_t n_ = 0;
  float divisor_ = 1;
  bool empty_ = false;
};

template <typename>
using SumOfHalves = HalfReductionKernel<Sum<float>, false, AxesAttrs>;
template <typename>
using MeanOfHalves = HalfReductionKernel<Sum<float>, true, AxesAttrs>;
template <typename>
using MaxOfHalves = HalfReductionKernel<Extremum<float, true>, false, AxesAttrs>;
template <typename>
using MinOfHalves = HalfReductionKernel<Extremum<float, false>, false, AxesAttrs>;
template <typename>
using SumLikeOfHalves = HalfReductionKernel<Sum<float>, false, opwright::NoAttrs>;

// x_grad of sum and mean: out_grad is repeated and, for mean, divided by the count. Slots: x,
// out_grad.
template <bool kMean>
struct HalfSpreadKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxesAttrs& attrs) {
    const opwright::Shape shape = ctx.input(0).shape();
    rows_ = HalfRowsOf(ctx.input(1).dtype());
    n_ = ctx.input(1).numel();
    spread_ = Broadcast(shape.dims(), ReducedAxes(attrs.axis, shape.rank()), sizeof(uint16_t));
    divisor_ = static_cast<float>(n_ > 0 ? shape.numel() / n_ : 1);
    if (kMean) ctx.SetWorkspace(static_cast<uint64_t>(n_) * (sizeof(float) + sizeof(uint16_t)));
    ctx.SetEstimate(StreamNs(2 * shape.numel(), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxesAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const void* out_grad = ctx.input(1).raw();
    if constexpr (kMean) {
      auto* shares = ctx.workspace<float>();
      rows_.widen(out_grad, shares, n_);
      for (int64_t i = 0; i < n_; ++i) shares[i] /= divisor_;
      rows_.narrow(shares, shares + n_, n_);
      out_grad = shares + n_;
    }
    spread_.Run(out_grad, ctx.output(0).raw(), ctx.n_threads());
    return opwright::Status::Ok();
  }

  Broadcast spread_;
  HalfRows rows_;
  int64_t n_ = 0;
  float divisor_ = 1;
};

template <typename>
using SumGradOfHalves = HalfSpreadKernel<false>;
template <typename>
using MeanGradOfHalves = HalfSpreadKernel<true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sum", "cpu", opwright_cpu::SumOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("mean", "cpu", opwright_cpu::MeanOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("max", "cpu", opwright_cpu::MaxOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("min", "cpu", opwright_cpu::MinOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("sum_like", "cpu", opwright_cpu::SumLikeOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("sum_grad", "cpu", opwright_cpu::SumGradOfHalves, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("mean_grad", "cpu", opwright_cpu::MeanGradOfHalves,
                             OPWRIGHT_CPU_HALVES);
