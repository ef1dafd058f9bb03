// layer_norm, and rms_norm, which does not subtract the mean (kCentered is false). An array
// consists of rows, each of which spans the normalized axes.
#include <algorithm>
#include <cstring>

#include "common/clones.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "common/stream.h"
#include "common/widened.h"
#include "normalization/attributes.h"
#include "normalization/layer_norm_stream.h"
#include "normalization/normalized_rows.h"
#include "reduction/blocks.h"
#include "reduction/half_blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// scale and bias may be NULL.
template <typename T>
OPWRIGHT_CPU_INLINE void NormalizeRow(const T* x, const T* scale, const T* bias, int64_t n, T mean,
                                      T inv_std, T* out) {
  if (scale != nullptr && bias != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * inv_std * scale[i] + bias[i];
  } else if (scale != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * inv_std * scale[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * inv_std;
    for (int64_t i = 0; bias != nullptr && i < n; ++i) out[i] += bias[i];
  }
}

// Normalizes rows up to the first row in which squares overflow or underflow; returns their number.
template <typename T, bool kCentered>
OPWRIGHT_CPU_CLONES int64_t NormalizeOrdinaryRows(const T* x, const T* scale, const T* bias,
                                                  int64_t n_rows, int64_t n, T epsilon, T* out,
                                                  T* means, T* inv_stds) {
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    const RowStatistics<T> found = StatisticsOf<kCentered>(x, n, epsilon);
    if (!found.is_ordinary) return row;
    NormalizeRow(x, scale, bias, n, found.mean, found.inv_std, out);
    if (kCentered) means[row] = found.mean;
    inv_stds[row] = found.inv_std;
  }
  return n_rows;
}

// scale, bias and means may be NULL.
template <typename T, bool kCentered>
void NormalizeRows(const T* x, const T* scale, const T* bias, int64_t n_rows, int64_t n, T epsilon,
                   T* out, T* means, T* inv_stds) {
  for (int64_t row = 0; row < n_rows; ++row) {
    row += NormalizeOrdinaryRows<T, kCentered>(x + row * n, scale, bias, n_rows - row, n, epsilon,
                                               out + row * n, kCentered ? means + row : nullptr,
                                               inv_stds + row);
    if (row == n_rows) return;
    const T* extreme = x + row * n;
    const T mean = StatisticsOf<kCentered>(extreme, n, epsilon).mean;
    inv_stds[row] = InverseOfExtremeRow(extreme, n, mean, epsilon);
    if (kCentered) means[row] = mean;
    NormalizeRow(extreme, scale, bias, n, mean, inv_stds[row], out + row * n);
  }
}

// Slots: x, scale, bias; out, mean, inv_std. rms_norm: x, scale; out, inv_rms.
template <typename T, bool kCentered>
struct RowNormKernel {
  static constexpr uint32_t kInvStd = kCentered ? 2 : 1;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    rows_ = NormalizedRows(ctx.input(0).shape(), attrs.begin_norm_axis);
    constexpr auto kItemBytes = static_cast<int64_t>(sizeof(T));
    stream_ = kCentered && rows_.numel() * kItemBytes >= kStreamBytes &&
              rows_.length >= kLeastStreamedRow &&
              rows_.length * kItemBytes <= kMostStreamedRowBytes;
    ctx.SetEstimate(StreamNs(3 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs& attrs) const {
    T* mean = kCentered ? ctx.output(1).template data<T>() : nullptr;
    T* inv_std = ctx.output(kInvStd).template data<T>();
    if (rows_.numel() == 0) {
      if (kCentered) std::fill(mean, mean + rows_.outer, T(0));
      std::fill(inv_std, inv_std + rows_.outer, T(0));
      return opwright::Status::Ok();
    }
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr;
    const T* bias = kCentered && ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    const int64_t n = rows_.length;
    const T epsilon = static_cast<T>(attrs.epsilon);
    ParallelFor(ctx.n_threads(), rows_.outer, RowGrain(n), 1, [=](int64_t begin, int64_t end) {
      const bool stream = stream_ && out != x && scale != nullptr && bias != nullptr;
      const auto rows = stream ? StreamNormalizedRows<T> : NormalizeRows<T, kCentered>;
      rows(x + begin * n, scale, bias, end - begin, n, epsilon, out + begin * n,
           kCentered ? mean + begin : nullptr, inv_std + begin);
    });
    return opwright::Status::Ok();
  }

  Lines rows_;
  bool stream_ = false;
};

// The kernel for 16-bit floats, which widens, normalizes and rounds blocks of rows.
template <bool kCentered>
struct HalfRowNormKernel {
  static constexpr uint32_t kInvStd = kCentered ? 2 : 1;

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    lines_ = NormalizedRows(ctx.input(0).shape(), attrs.begin_norm_axis);
    half_ = HalfRowsOf(ctx.input(0).dtype());
    ctx.SetWorkspace(static_cast<uint64_t>(2 * lines_.length) * sizeof(float));
    ctx.SetEstimate(StreamNs(6 * lines_.numel(), ctx.n_threads()));
    return blocks_.Make(lines_);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs& attrs) const {
    char* mean = kCentered ? static_cast<char*>(ctx.output(1).raw()) : nullptr;
    char* inv_std = static_cast<char*>(ctx.output(kInvStd).raw());
    if (lines_.numel() == 0) {
      const auto bytes = static_cast<size_t>(lines_.outer * kHalfBytes);
      if (kCentered) std::memset(mean, 0, bytes);
      std::memset(inv_std, 0, bytes);
      return opwright::Status::Ok();
    }
    const int64_t n = lines_.length;
    const float* scale = Widened(ctx, 1, ctx.workspace<float>());
    const float* bias = kCentered ? Widened(ctx, 2, ctx.workspace<float>() + n) : nullptr;
    const char* x = static_cast<const char*>(ctx.input(0).raw());
    char* out = static_cast<char*>(ctx.output(0).raw());
    const auto epsilon = static_cast<float>(attrs.epsilon);
    blocks_.ForEach(ctx.n_threads(), [=](int64_t row, int64_t n_rows) {
      alignas(64) float wide[kWidestRow];
      alignas(64) float means[kWide];
      alignas(64) float inv_stds[kWide];
      const int64_t offset = row * n * kHalfBytes;
      half_.widen(x + offset, wide, n_rows * n);
      NormalizeRows<float, kCentered>(wide, scale, bias, n_rows, n, epsilon, wide, means, inv_stds);
      half_.narrow(wide, out + offset, n_rows * n);
      if (kCentered) half_.narrow(means, mean + row * kHalfBytes, n_rows);
      half_.narrow(inv_stds, inv_std + row * kHalfBytes, n_rows);
    });
    return opwright::Status::Ok();
  }

  // Returns the widened scale or bias, or NULL if it is absent.
  const float* Widened(const opwright::RunContext& ctx, uint32_t slot, float* to) const {
    if (!ctx.has_input(slot)) return nullptr;
    half_.widen(ctx.input(slot).raw(), to, lines_.length);
    return to;
  }

  Lines lines_;
  HalfBlocks blocks_;
  HalfRows half_;
};

template <typename>
using HalfLayerNormKernel = HalfRowNormKernel<true>;
template <typename>
using HalfRmsNormKernel = HalfRowNormKernel<false>;
template <typename T>
using LayerNormKernel = RowNormKernel<T, true>;
template <typename T>
using RmsNormKernel = RowNormKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm", "cpu", opwright_cpu::LayerNormKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm", "cpu", opwright_cpu::HalfLayerNormKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_WIDENED("layer_norm", opwright_cpu::LayerNormKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("rms_norm", "cpu", opwright_cpu::RmsNormKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("rms_norm", "cpu", opwright_cpu::HalfRmsNormKernel,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_CPU_REGISTER_WIDENED("rms_norm", opwright_cpu::RmsNormKernel);
