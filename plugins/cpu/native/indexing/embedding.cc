#include <cstring>

#include "common/widened.h"
#include "indexing/attributes.h"
#include "indexing/rows.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct EmbeddingKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const EmbeddingAttrs&) {
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    blocks_ = RowBlocks{1, shape[0], ctx.input(1).numel(), shape[1] * item};
    ctx.SetEstimate(MoveNanoseconds(2 * ctx.output(0).numel() * item, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const EmbeddingAttrs& attrs) const {
    const Positions index(ctx.input(1), blocks_.n);
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", 0, blocks_.count));
    char* out = MutableBytes(ctx.output(0));
    CopyRowsAt(blocks_, Bytes(ctx.input(0)), index, out, ctx.n_threads());
    if (attrs.padding_index < 0 || blocks_.row == 0) return opwright::Status::Ok();
    for (int64_t i = 0; i < blocks_.n; ++i) {
      if (index[i] != attrs.padding_index) continue;
      std::memset(out + i * blocks_.row, 0, static_cast<size_t>(blocks_.row));
    }
    return opwright::Status::Ok();
  }
  RowBlocks blocks_{};
};

// The inputs are weight (its shape only), index and out_grad; the output is weight_grad.
template <typename T>
struct EmbeddingGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const EmbeddingAttrs&) {
    const std::vector<int64_t> shape = ctx.output(0).shape().dims();
    blocks_ = RowBlocks{1, shape[0], ctx.input(1).numel(), shape[1]};
    const int64_t items = ctx.output(0).numel() + 3 * blocks_.n * blocks_.row;
    ctx.SetEstimate(MoveNanoseconds(items * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const EmbeddingAttrs& attrs) const {
    const Positions index(ctx.input(1), blocks_.n);
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", 0, blocks_.count));
    T* grad = ctx.output(0).data<T>();
    AddRowsAt(blocks_, ctx.input(2).data<T>(), index, grad, ctx.n_threads());
    if (0 <= attrs.padding_index && attrs.padding_index < blocks_.count) {
      std::fill_n(grad + attrs.padding_index * blocks_.row, blocks_.row, T{0});
    }
    return opwright::Status::Ok();
  }
  RowBlocks blocks_{};
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("embedding", "cpu", opwright_cpu::EmbeddingKernel, opwright::AnyDtype);
OPWRIGHT_CPU_REGISTER_FLOATS("embedding_grad", opwright_cpu::EmbeddingGradKernel);
