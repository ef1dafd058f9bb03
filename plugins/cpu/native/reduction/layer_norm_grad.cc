// The gradients of layer_norm and of rms_norm (not kCentered): an array is rows, the normalised
// axes being one row.
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/layout.h"
#include "reduction/normalized_rows.h"

namespace opwright_cpu {
namespace {

// Rows whose share of the scale's and bias' gradient is added up by itself: fixed, so that results
// do not depend on the number of threads.
constexpr int64_t kRowBlock = 64;

// The means may be NULL.
template <typename T, bool kCentered>
OPWRIGHT_CPU_CLONES void XGradRows(const T* x, const T* scale, const T* mean, const T* inv_std,
                                   const T* grad, int64_t n_rows, int64_t n, T* x_grad) {
  for (int64_t row = 0; row < n_rows; ++row, x += n, grad += n, x_grad += n) {
    for (int64_t i = 0; scale != nullptr && i < n; ++i) x_grad[i] = grad[i] * scale[i];
    const T* scaled = scale != nullptr ? x_grad : grad;
    const RowStatistics<T> found{kCentered ? mean[row] : T(0), inv_std[row]};
    XGradRow<kCentered>(x, scaled, n, found, x_grad);
  }
}

// Adds up a block of rows: sums[0, n) of grad and sums[n, 2n) of grad * normal.
template <typename T, bool kCentered>
OPWRIGHT_CPU_CLONES void SumParameterGrads(const T* x, const T* mean, const T* inv_std,
                                           const T* grad, int64_t n_rows, int64_t n, T* sums) {
  T* normal_sums = sums + n;
  for (int64_t i = 0; i < 2 * n; ++i) sums[i] = 0;
  for (int64_t row = 0; row < n_rows; ++row, x += n, grad += n) {
    const T center = kCentered ? mean[row] : T(0), spread = inv_std[row];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      if (kCentered) sums[i] += grad[i];
      normal_sums[i] += grad[i] * ((x[i] - center) * spread);
    }
  }
}

// Slots: x, scale, bias (its shape only), mean, inv_std, out_grad; x_grad, scale_grad, bias_grad.
// rms_norm: x, scale, inv_rms, out_grad; x_grad, scale_grad.
template <typename T, bool kCentered>
struct RowNormGradKernel {
  static constexpr uint32_t kInvStd = kCentered ? 4 : 2;
  static constexpr uint32_t kOutputs = kCentered ? 3 : 2;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    rows_ = NormalizedRows(ctx.input(0).shape(), attrs.begin_norm_axis);
    // Many rows a block where they are short, and not more than 64 blocks, to be added in turn.
    block_ = std::max((rows_.outer + 63) / 64, kRowBlock);
    n_blocks_ = (rows_.outer + block_ - 1) / block_;
    if (ctx.has_output(1) || (kCentered && ctx.has_output(2))) {
      ctx.SetWorkspace(static_cast<uint64_t>(2 * n_blocks_ * rows_.length) * sizeof(T));
    }
    ctx.SetEstimate(StreamNs(5 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs&) const {
    if (rows_.numel() == 0) return FillZero(ctx);
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr;
    const T* mean = kCentered ? ctx.input(3).data<T>() : nullptr;
    const T* inv_std = ctx.input(kInvStd).template data<T>();
    const T* grad = ctx.input(kInvStd + 1).template data<T>();
    const auto mean_from = [=](int64_t row) { return kCentered ? mean + row : nullptr; };
    const int64_t n = rows_.length;
    if (ctx.has_output(0)) {
      T* x_grad = ctx.output(0).data<T>();
      ParallelFor(ctx.n_threads(), rows_.outer, RowGrain(n), 1, [=](int64_t begin, int64_t end) {
        XGradRows<T, kCentered>(x + begin * n, scale, mean_from(begin), inv_std + begin,
                                grad + begin * n, end - begin, n, x_grad + begin * n);
      });
    }
    const bool with_bias = kCentered && ctx.has_output(2);
    if (!ctx.has_output(1) && !with_bias) return opwright::Status::Ok();
    T* sums = ctx.workspace<T>();
    const int64_t grain = std::max<int64_t>(1, RowGrain(n) / block_);
    ParallelFor(ctx.n_threads(), n_blocks_, grain, 1, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block * block_;
        SumParameterGrads<T, kCentered>(x + row * n, mean_from(row), inv_std + row, grad + row * n,
                                        std::min(block_, rows_.outer - row), n,
                                        sums + 2 * n * block);
      }
    });
    for (int64_t block = 1; block < n_blocks_; ++block) {
      for (int64_t i = 0; i < 2 * n; ++i) sums[i] += sums[2 * n * block + i];
    }
    if (ctx.has_output(1)) std::copy(sums + n, sums + 2 * n, ctx.output(1).data<T>());
    if (with_bias) std::copy(sums, sums + n, ctx.output(2).data<T>());
    return opwright::Status::Ok();
  }

  static opwright::Status FillZero(const opwright::RunContext& ctx) {
    for (uint32_t slot = 0; slot < kOutputs; ++slot) {
      if (!ctx.has_output(slot)) continue;
      const opwright::OutputTensor out = ctx.output(slot);
      std::fill(out.data<T>(), out.data<T>() + out.numel(), T(0));
    }
    return opwright::Status::Ok();
  }

  Lines rows_;
  int64_t block_ = 1;
  int64_t n_blocks_ = 0;
};

template <typename T>
using LayerNormGradKernel = RowNormGradKernel<T, true>;
template <typename T>
using RmsNormGradKernel = RowNormGradKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm_grad", "cpu", opwright_cpu::LayerNormGradKernel, float,
                             double);
OPWRIGHT_CPU_REGISTER_WIDENED("layer_norm_grad", opwright_cpu::LayerNormGradKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("rms_norm_grad", "cpu", opwright_cpu::RmsNormGradKernel, float,
                             double);
OPWRIGHT_CPU_REGISTER_WIDENED("rms_norm_grad", opwright_cpu::RmsNormGradKernel);
