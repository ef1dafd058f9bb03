#include "common/attributes.h"
#include "common/widened.h"
#include "indexing/rows.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// Describes a tensor as [outer, count, row], where `count` is the length of the axis.
RowBlocks BlocksOf(const opwright::Shape& table, int64_t axis, int64_t n) {
  const std::vector<int64_t> shape = IndexedDims(table);
  const size_t at = FrontAxis(axis, shape.size());
  return RowBlocks{Product(shape, 0, at), shape[at], n, Product(shape, at + 1, shape.size())};
}

template <typename T>
struct GatherKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    blocks_ = BlocksOf(ctx.input(0).shape(), attrs.axis, ctx.input(1).numel());
    blocks_.row *= item;
    ctx.SetEstimate(MoveNanoseconds(2 * ctx.output(0).numel() * item, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const Positions index(ctx.input(1), blocks_.n);
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", -blocks_.count, blocks_.count));
    CopyRowsAt(blocks_, Bytes(ctx.input(0)), index, MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  RowBlocks blocks_{};
};

// The inputs are x (its shape only), index and out_grad; the output is x_grad.
template <typename T>
struct GatherGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    blocks_ = BlocksOf(ctx.output(0).shape(), attrs.axis, ctx.input(1).numel());
    const int64_t items = ctx.output(0).numel() + 3 * blocks_.outer * blocks_.n * blocks_.row;
    ctx.SetEstimate(MoveNanoseconds(items * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const Positions index(ctx.input(1), blocks_.n);
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", -blocks_.count, blocks_.count));
    AddRowsAt(blocks_, ctx.input(2).data<T>(), index, ctx.output(0).data<T>(), ctx.n_threads());
    return opwright::Status::Ok();
  }
  RowBlocks blocks_{};
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("gather", "cpu", opwright_cpu::GatherKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_CPU_REGISTER_FLOATS("gather_grad", opwright_cpu::GatherGradKernel);
