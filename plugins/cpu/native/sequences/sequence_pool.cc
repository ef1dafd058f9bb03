#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/widened.h"
#include "sequences/sequence_pool.h"

namespace opwright_cpu {
namespace {

// The inputs are x and lengths.
template <typename T>
struct SequencePoolKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const PoolAttrs& attrs) {
    columns_ = PoolColumns(ctx.input(0), sizeof(T));
    kind_ = PoolKindOf(attrs.kind);
    ctx.SetEstimate(MoveNanoseconds(columns_.padded.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const PoolAttrs&) const {
    const Positions lengths(ctx.input(1), columns_.padded.n);
    OPWRIGHT_RETURN_IF_ERROR(columns_.padded.Check(lengths));
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    columns_.Each(ctx.n_threads(), [&](int64_t i, int64_t begin, int64_t width) {
      const int64_t stride = columns_.width;
      Pool(x + i * columns_.padded.steps * stride + begin, lengths[i], stride, width,
           out + i * stride + begin);
    });
    return opwright::Status::Ok();
  }

  void Pool(const T* x, int64_t length, int64_t stride, int64_t width, T* out) const {
    if (length == 0) {
      std::fill_n(out, width, T{0});
    } else if (kind_ == PoolKind::kFirst || kind_ == PoolKind::kLast) {
      const T* row = kind_ == PoolKind::kFirst ? x : x + (length - 1) * stride;
      std::copy_n(row, width, out);
    } else if (kind_ == PoolKind::kMax) {
      MaxRows(x, length, stride, width, out);
    } else {
      SumRows(x, length, stride, width, out);
      const auto divisor = static_cast<T>(DivisorOf(kind_, length));
      for (int64_t j = 0; j < width; ++j) out[j] /= divisor;
    }
  }

  PoolColumns columns_;
  PoolKind kind_ = PoolKind::kSum;
};

// The inputs are x, lengths, out and out_grad; the output is x_grad.
template <typename T>
struct SequencePoolGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const PoolAttrs& attrs) {
    columns_ = PoolColumns(ctx.output(0), sizeof(T));
    kind_ = PoolKindOf(attrs.kind);
    ctx.SetEstimate(MoveNanoseconds(columns_.padded.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const PoolAttrs&) const {
    const Positions lengths(ctx.input(1), columns_.padded.n);
    OPWRIGHT_RETURN_IF_ERROR(columns_.padded.Check(lengths));
    const int64_t stride = columns_.width;
    const int64_t steps = columns_.padded.steps;
    columns_.Each(ctx.n_threads(), [&](int64_t i, int64_t begin, int64_t width) {
      const int64_t at = i * steps * stride + begin;
      const int64_t row = i * stride + begin;
      const Block<T> block{ctx.input(0).data<T>() + at, ctx.input(2).data<T>() + row,
                           ctx.input(3).data<T>() + row, ctx.output(0).data<T>() + at};
      Spread(block, lengths[i], width);
      ZeroRows(block.x_grad + lengths[i] * stride, steps - lengths[i], stride, width);
    });
    return opwright::Status::Ok();
  }

  template <typename U>
  struct Block {
    const U* x;
    const U* out;
    const U* out_grad;
    U* x_grad;
  };

  void Spread(const Block<T>& b, int64_t length, int64_t width) const {
    if (length == 0) return;
    const int64_t stride = columns_.width;
    if (kind_ == PoolKind::kFirst || kind_ == PoolKind::kLast) {
      ZeroRows(b.x_grad, length, stride, width);
      std::copy_n(b.out_grad, width,
                  b.x_grad + (kind_ == PoolKind::kFirst ? 0 : (length - 1) * stride));
    } else if (kind_ == PoolKind::kMax) {
      ShareRows(b.x, b.out, b.out_grad, length, stride, width, b.x_grad);
    } else {
      const auto divisor = static_cast<T>(DivisorOf(kind_, length));
      SpreadRows(b.out_grad, divisor, length, stride, width, b.x_grad);
    }
  }

  PoolColumns columns_;
  PoolKind kind_ = PoolKind::kSum;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("sequence_pool", opwright_cpu::SequencePoolKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("sequence_pool_grad", opwright_cpu::SequencePoolGradKernel);
