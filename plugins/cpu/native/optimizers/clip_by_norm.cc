// clip_by_norm and clip_by_global_norm: scale gradients down if their norm exceeds a bound.
#include <cmath>

#include "common/widened.h"
#include "movement/tensors.h"
#include "optimizers/attributes.h"
#include "optimizers/squares.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES double SquaresOf(const T* x, int64_t n) {
  return SumOfSquares(0, n, [x](int64_t i) { return x[i]; });
}

template <typename T>
OPWRIGHT_CPU_CLONES void ScaleRange(const T* x, T* out, T factor, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

// A block of a tensor; the squares of each block are summed separately.
struct NormBlock {
  uint32_t tensor;
  int64_t begin;
  int64_t n;
};

// Slots of clip_by_norm: x; out. Slots of clip_by_global_norm: x*; out*, norm.
template <typename T, bool kIsGlobal>
struct ClipKernel {
  using Attrs = MaxNormAttrs;
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    int64_t numel = 0;
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const int64_t n = ctx.input(0, i).numel();
      numel += n;
      for (int64_t begin = 0; begin < n; begin += kSquaresBlock) {
        blocks_.push_back(NormBlock{i, begin, std::min(kSquaresBlock, n - begin)});
      }
    }
    ctx.SetWorkspace(blocks_.size() * sizeof(double));
    ctx.SetEstimate(MoveNanoseconds(numel * 3 * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    auto* sums = ctx.workspace<double>();
    const auto n_blocks = static_cast<int64_t>(blocks_.size());
    ParallelFor(ctx.n_threads(), n_blocks, kGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const NormBlock& block = blocks_[static_cast<size_t>(i)];
        sums[i] = SquaresOf(ctx.input(0, block.tensor).data<T>() + block.begin, block.n);
      }
    });
    double total = 0;
    for (int64_t i = 0; i < n_blocks; ++i) total += sums[i];
    const double norm = std::sqrt(total);
    // The factor is exactly 1 if the norm is within the bound, and NaN if the norm is NaN.
    const T factor = norm <= attrs.max_norm ? T(1) : static_cast<T>(attrs.max_norm / norm);
    ParallelFor(ctx.n_threads(), n_blocks, kGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const NormBlock& block = blocks_[static_cast<size_t>(i)];
        const T* x = ctx.input(0, block.tensor).data<T>() + block.begin;
        T* out = ctx.output(0, block.tensor).data<T>() + block.begin;
        if (factor != T(1) || x != out) ScaleRange(x, out, factor, block.n);
      }
    });
    if constexpr (kIsGlobal) *ctx.output(1).data<T>() = static_cast<T>(norm);
    return opwright::Status::Ok();
  }

  static constexpr int64_t kGrain = 8;  // minimum number of blocks per thread
  std::vector<NormBlock> blocks_;
};

template <typename T>
using ClipByNormKernel = ClipKernel<T, false>;
template <typename T>
using ClipByGlobalNormKernel = ClipKernel<T, true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("clip_by_norm", opwright_cpu::ClipByNormKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("clip_by_global_norm", opwright_cpu::ClipByGlobalNormKernel);
