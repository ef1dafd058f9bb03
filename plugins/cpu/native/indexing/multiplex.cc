#include <cstring>
#include <vector>

#include "common/attributes.h"
#include "indexing/positions.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// The inputs are index and x, a list of tensors. Each output row is copied from the tensor selected
// by the index.
template <typename T>
struct MultiplexKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const std::vector<int64_t> shape = ctx.output(0).shape().dims();
    rows_ = shape[0];
    row_bytes_ = Product(shape, 1, shape.size()) * ItemBytes(ctx.output(0).dtype());
    ctx.SetEstimate(MoveNanoseconds(rows_ * row_bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const Positions index(ctx.input(0), rows_);
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", 0, ctx.input_count(1)));
    if (rows_ * row_bytes_ == 0) return opwright::Status::Ok();
    char* out = MutableBytes(ctx.output(0));
    ParallelFor(ctx.n_threads(), rows_, kCopyGrainBytes / row_bytes_ + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const char* x = Bytes(ctx.input(1, static_cast<uint32_t>(index[i])));
                    std::memcpy(out + i * row_bytes_, x + i * row_bytes_,
                                static_cast<size_t>(row_bytes_));
                  }
                });
    return opwright::Status::Ok();
  }
  int64_t rows_ = 0;
  int64_t row_bytes_ = 0;
};

// The inputs are index, x (shapes only) and out_grad. In the outputs, one per x, unselected rows
// are 0.
template <typename T>
struct MultiplexGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const std::vector<int64_t> shape = ctx.input(2).shape().dims();
    rows_ = shape[0];
    row_bytes_ = Product(shape, 1, shape.size()) * ItemBytes(ctx.input(2).dtype());
    const int64_t count = ctx.output_count(0);
    ctx.SetEstimate(MoveNanoseconds(count * rows_ * row_bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const Positions index(ctx.input(0), rows_);
    const auto count = static_cast<int64_t>(ctx.output_count(0));
    OPWRIGHT_RETURN_IF_ERROR(index.Check("index", 0, count));
    if (rows_ * row_bytes_ == 0) return opwright::Status::Ok();
    const char* grad = Bytes(ctx.input(2));
    ParallelFor(ctx.n_threads(), rows_, kCopyGrainBytes / (count * row_bytes_) + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t which = 0; which < count; ++which) {
                    char* out = MutableBytes(ctx.output(0, static_cast<uint32_t>(which)));
                    WriteRows(index, which, grad, out, begin, end);
                  }
                });
    return opwright::Status::Ok();
  }

  void WriteRows(const Positions& index, int64_t which, const char* grad, char* out, int64_t begin,
                 int64_t end) const {
    const auto n = static_cast<size_t>(row_bytes_);
    for (int64_t i = begin; i < end; ++i) {
      if (index[i] == which) {
        std::memcpy(out + i * row_bytes_, grad + i * row_bytes_, n);
      } else {
        std::memset(out + i * row_bytes_, 0, n);
      }
    }
  }

  int64_t rows_ = 0;
  int64_t row_bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("multiplex", "cpu", opwright_cpu::MultiplexKernel, opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("multiplex_grad", "cpu", opwright_cpu::MultiplexGradKernel,
                             opwright::AnyDtype);
