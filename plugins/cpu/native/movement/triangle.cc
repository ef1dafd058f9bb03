// triu and tril copy one part of each matrix row and set the other part to 0.
#include <cstring>
#include <string>

#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

struct TriangleAttrs {
  int64_t k;
  OPWRIGHT_ATTRIBUTES(k);
};

template <bool kUpper>
struct TriangleKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const TriangleAttrs&) {
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    rows_ = shape[shape.size() - 2];
    columns_ = shape.back();
    item_ = ItemBytes(ctx.input(0).dtype());
    bytes_ = ctx.input(0).numel() * item_;
    ctx.SetEstimate(MoveNanoseconds(bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const TriangleAttrs& attrs) const {
    if (bytes_ == 0) return opwright::Status::Ok();
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    const int64_t row_bytes = columns_ * item_;
    ParallelFor(ctx.n_threads(), bytes_ / row_bytes, kCopyGrainBytes / row_bytes + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    // The shape rule bounds k, so the sum does not overflow.
                    const int64_t first = i % rows_ + attrs.k + (kUpper ? 0 : 1);
                    const int64_t cut = std::clamp<int64_t>(first, 0, columns_) * item_;
                    WriteRow(x + i * row_bytes, out + i * row_bytes, cut, row_bytes);
                  }
                });
    return opwright::Status::Ok();
  }

  // Writes a row. The lower triangle is before the position `cut`, the upper triangle after it.
  static void WriteRow(const char* x, char* out, int64_t cut, int64_t row_bytes) {
    const int64_t kept = kUpper ? cut : 0;
    const int64_t zero = kUpper ? 0 : cut;
    const auto n_kept = static_cast<size_t>(kUpper ? row_bytes - cut : cut);
    if (x != out) std::memcpy(out + kept, x + kept, n_kept);
    std::memset(out + zero, 0, static_cast<size_t>(row_bytes) - n_kept);
  }

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t item_ = 1;
  int64_t bytes_ = 0;
};

template <typename T>
using TriuKernel = TriangleKernel<true>;
template <typename T>
using TrilKernel = TriangleKernel<false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("triu", "cpu", opwright_cpu::TriuKernel, opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("tril", "cpu", opwright_cpu::TrilKernel, opwright::AnyDtype);
