#include "common/attributes.h"
#include "common/widened.h"
#include "indexing/row_numbers.h"
#include "indexing/rows.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct GatherNdKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    rows_ = IndexedRows(ctx.input(0).shape().dims(), ctx.input(1).shape().dims());
    row_bytes_ = rows_.row * ItemBytes(ctx.input(0).dtype());
    ctx.SetWorkspace(rows_.workspace_bytes());
    ctx.SetEstimate(MoveNanoseconds(2 * rows_.n * (row_bytes_ + 8), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    auto* numbers = ctx.workspace<int64_t>();
    OPWRIGHT_RETURN_IF_ERROR(rows_.Find(ctx.input(1), numbers, ctx.n_threads()));
    const RowBlocks blocks{1, rows_.count, rows_.n, row_bytes_};
    CopyRowsAt(blocks, Bytes(ctx.input(0)), Positions(numbers, rows_.n),
               MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  IndexedRows rows_;
  int64_t row_bytes_ = 0;
};

// The inputs are x (its shape only), index and out_grad; the output is x_grad.
template <typename T>
struct GatherNdGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    rows_ = IndexedRows(ctx.output(0).shape().dims(), ctx.input(1).shape().dims());
    ctx.SetWorkspace(rows_.workspace_bytes());
    const int64_t items = ctx.output(0).numel() + 3 * rows_.n * (rows_.row + 1);
    ctx.SetEstimate(MoveNanoseconds(items * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    auto* numbers = ctx.workspace<int64_t>();
    OPWRIGHT_RETURN_IF_ERROR(rows_.Find(ctx.input(1), numbers, ctx.n_threads()));
    const RowBlocks blocks{1, rows_.count, rows_.n, rows_.row};
    AddRowsAt(blocks, ctx.input(2).data<T>(), Positions(numbers, rows_.n), ctx.output(0).data<T>(),
              ctx.n_threads());
    return opwright::Status::Ok();
  }
  IndexedRows rows_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("gather_nd", "cpu", opwright_cpu::GatherNdKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_CPU_REGISTER_FLOATS("gather_nd_grad", opwright_cpu::GatherNdGradKernel);
