// sum_like, which reverses broadcasting, and expand_like and expand, which broadcast.
#include "common/half_rows.h"
#include "common/parallel.h"
#include "reduction/broadcast.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Slots: x, like (its shape only), out.
template <typename Number>
struct SumToKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    const opwright::Shape shape = ctx.input(0).shape();
    n_ = ctx.output(0).numel();
    empty_ = shape.numel() == 0;
    if (empty_) return opwright::Status::Ok();
    reducer_ =
        Reducer<Number, Sum<Number>>(shape.dims(), RepeatedAxes(ctx.output(0).shape(), shape));
    ctx.SetWorkspace(reducer_.workspace_bytes());
    const auto bytes = static_cast<int64_t>(sizeof(Number)) * (shape.numel() + n_);
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    auto* out = static_cast<Number*>(ctx.output(0).raw());
    if (empty_) {
      std::fill(out, out + n_, Number(0));
      return opwright::Status::Ok();
    }
    reducer_.Run(static_cast<const Number*>(ctx.input(0).raw()), out, ctx.workspace(),
                 ctx.n_threads());
    return opwright::Status::Ok();
  }

  Reducer<Number, Sum<Number>> reducer_;
  int64_t n_ = 0;
  bool empty_ = false;
};

template <typename T>
using SumLikeKernel = SumToKernel<SumType<T>>;

// Items of any dtype are moved as bytes.
template <typename>
struct ExpandKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    const opwright::Shape shape = ctx.output(0).shape();
    const size_t item_bytes = (ctx.output(0).dtype().bits + 7u) / 8u;
    broadcast_ = Broadcast(shape.dims(), RepeatedAxes(ctx.input(0).shape(), shape), item_bytes);
    ctx.SetEstimate(
        StreamNs(shape.numel() * static_cast<int64_t>(2 * item_bytes), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    broadcast_.Run(ctx.input(0).raw(), ctx.output(0).raw(), ctx.n_threads());
    return opwright::Status::Ok();
  }

  Broadcast broadcast_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sum_like", "cpu", opwright_cpu::SumLikeKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("expand_like", "cpu", opwright_cpu::ExpandKernel, OPWRIGHT_CPU_NUMBERS,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("expand", "cpu", opwright_cpu::ExpandKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
