// The gradients of layer_norm and of rms_norm (kCentered is false). An array consists of rows, each
// of which spans the normalized axes.
#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "normalization/attributes.h"
#include "normalization/normalized_rows.h"
#include "reduction/half_blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Number of rows whose contributions to the gradients of scale and bias are summed separately. The
// number is fixed so that results do not depend on the number of threads.
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

// Adds rows of grad to sums[0, n), and of grad * normal to sums[n, 2n).
template <typename T, bool kCentered>
OPWRIGHT_CPU_CLONES void AddParameterGrads(const T* x, const T* mean, const T* inv_std,
                                           const T* grad, int64_t n_rows, int64_t n, T* sums) {
  T* normal_sums = sums + n;
  for (int64_t row = 0; row < n_rows; ++row, x += n, grad += n) {
    const T center = kCentered ? mean[row] : T(0), spread = inv_std[row];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      if (kCentered) sums[i] += grad[i];
      normal_sums[i] += grad[i] * ((x[i] - center) * spread);
    }
  }
}

// Adds all blocks of n sums to the first block.
template <typename T>
void AddBlocks(int64_t n_blocks, int64_t n, T* sums) {
  for (int64_t block = 1; block < n_blocks; ++block) {
    for (int64_t i = 0; i < n; ++i) sums[i] += sums[n * block + i];
  }
}

opwright::Status FillZero(const opwright::RunContext& ctx, uint32_t n_outputs) {
  for (uint32_t slot = 0; slot < n_outputs; ++slot) {
    if (!ctx.has_output(slot)) continue;
    const opwright::OutputTensor out = ctx.output(slot);
    const auto item_bytes = static_cast<size_t>(out.dtype().bits / 8);
    std::memset(out.raw(), 0, static_cast<size_t>(out.numel()) * item_bytes);
  }
  return opwright::Status::Ok();
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
    // There are at most 64 blocks, added in order, so blocks are long if there are many rows.
    block_ = std::max((rows_.outer + 63) / 64, kRowBlock);
    n_blocks_ = (rows_.outer + block_ - 1) / block_;
    if (ctx.has_output(1) || (kCentered && ctx.has_output(2))) {
      ctx.SetWorkspace(static_cast<uint64_t>(2 * n_blocks_ * rows_.length) * sizeof(T));
    }
    ctx.SetEstimate(StreamNs(5 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs&) const {
    if (rows_.numel() == 0) return FillZero(ctx, kOutputs);
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
        T* of_block = sums + 2 * n * block;
        std::fill(of_block, of_block + 2 * n, T(0));
        AddParameterGrads<T, kCentered>(x + row * n, mean_from(row), inv_std + row, grad + row * n,
                                        std::min(block_, rows_.outer - row), n, of_block);
      }
    });
    AddBlocks(n_blocks_, 2 * n, sums);
    if (ctx.has_output(1)) std::copy(sums + n, sums + 2 * n, ctx.output(1).data<T>());
    if (with_bias) std::copy(sums, sums + n, ctx.output(2).data<T>());
    return opwright::Status::Ok();
  }

  Lines rows_;
  int64_t block_ = 1;
  int64_t n_blocks_ = 0;
};

// The kernel for 16-bit floats, which widens rows once for all outputs, block by block.
template <bool kCentered>
struct HalfRowNormGradKernel {
  static constexpr uint32_t kInvStd = kCentered ? 4 : 2;
  static constexpr uint32_t kOutputs = kCentered ? 3 : 2;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    lines_ = NormalizedRows(ctx.input(0).shape(), attrs.begin_norm_axis);
    half_ = HalfRowsOf(ctx.input(0).dtype());
    share_ = std::max((lines_.outer + 63) / 64, kRowShare);
    n_shares_ = (lines_.outer + share_ - 1) / share_;
    // The workspace holds the widened scale and the sums of each share.
    ctx.SetWorkspace(static_cast<uint64_t>((1 + 2 * n_shares_) * lines_.length) * sizeof(float));
    ctx.SetEstimate(StreamNs(8 * lines_.numel(), ctx.n_threads()));
    return blocks_.Make(lines_);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs&) const {
    if (lines_.numel() == 0) return FillZero(ctx, kOutputs);
    const int64_t n = lines_.length;
    auto* scale = ctx.workspace<float>();
    float* sums = scale + n;
    if (ctx.has_input(1)) half_.widen(ctx.input(1).raw(), scale, n);
    const int64_t grain = std::max<int64_t>(1, RowGrain(n) / 2 / share_);
    ParallelFor(ctx.n_threads(), n_shares_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t share = begin; share < end; ++share) {
        RunShare(ctx, share, scale, sums + 2 * n * share);
      }
    });
    AddBlocks(n_shares_, 2 * n, sums);
    if (ctx.has_output(1)) half_.narrow(sums + n, ctx.output(1).raw(), n);
    if (kCentered && ctx.has_output(2)) half_.narrow(sums, ctx.output(2).raw(), n);
    return opwright::Status::Ok();
  }

 private:
  // Number of rows that are summed separately, independent of the number of threads.
  static constexpr int64_t kRowShare = 8;

  void RunShare(const opwright::RunContext& ctx, int64_t share, const float* scale,
                float* sums) const {
    const int64_t n = lines_.length, first = share * share_;
    std::fill(sums, sums + 2 * n, 0.0f);
    const bool with_sums = ctx.has_output(1) || (kCentered && ctx.has_output(2));
    const float* scale_or_null = ctx.has_input(1) ? scale : nullptr;
    const auto widen = [&](uint32_t slot, int64_t at, float* to, int64_t count) {
      half_.widen(static_cast<const char*>(ctx.input(slot).raw()) + at * kHalfBytes, to, count);
    };
    const int64_t end = std::min(first + share_, lines_.outer);
    blocks_.ForRows(first, end, [&](int64_t row, int64_t n_rows) {
      alignas(64) float x[kWidestRow];
      alignas(64) float grad[kWidestRow];
      alignas(64) float mean[kWide];
      alignas(64) float inv_std[kWide];
      widen(0, row * n, x, n_rows * n);
      widen(kInvStd + 1, row * n, grad, n_rows * n);
      if (kCentered) widen(3, row, mean, n_rows);
      widen(kInvStd, row, inv_std, n_rows);
      if (with_sums) AddParameterGrads<float, kCentered>(x, mean, inv_std, grad, n_rows, n, sums);
      if (!ctx.has_output(0)) return;
      XGradRows<float, kCentered>(x, scale_or_null, mean, inv_std, grad, n_rows, n, grad);
      half_.narrow(grad, static_cast<char*>(ctx.output(0).raw()) + row * n * kHalfBytes,
                   n_rows * n);
    });
  }

  Lines lines_;
  HalfBlocks blocks_;
  HalfRows half_;
  int64_t share_ = 1;
  int64_t n_shares_ = 0;
};

template <typename>
using HalfLayerNormGradKernel = HalfRowNormGradKernel<true>;
template <typename>
using HalfRmsNormGradKernel = HalfRowNormGradKernel<false>;
template <typename T>
using LayerNormGradKernel = RowNormGradKernel<T, true>;
template <typename T>
using RmsNormGradKernel = RowNormGradKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm_grad", "cpu", opwright_cpu::LayerNormGradKernel, float,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm_grad", "cpu", opwright_cpu::HalfLayerNormGradKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_WIDENED("layer_norm_grad", opwright_cpu::LayerNormGradKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("rms_norm_grad", "cpu", opwright_cpu::RmsNormGradKernel, float,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("rms_norm_grad", "cpu", opwright_cpu::HalfRmsNormGradKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_WIDENED("rms_norm_grad", opwright_cpu::RmsNormGradKernel);
