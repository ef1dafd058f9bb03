// layer_norm and its gradient: an array is rows, the normalised axes being one row.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/stream.h"
#include "reduction/attributes.h"
#include "reduction/blocks.h"
#include "reduction/layer_norm_stream.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Rows whose share of the scale's and bias' gradient is added up by itself: fixed, so that results
// do not depend on the number of threads.
constexpr int64_t kRowBlock = 64;

Lines RowsOf(const opwright::Shape& shape, int64_t begin_norm_axis) {
  const size_t begin = FromFront(begin_norm_axis, shape.rank());
  const std::vector<int64_t>& dims = shape.dims();
  return Lines{Product(dims, 0, begin), Product(dims, begin, dims.size()), 1};
}

int64_t RowGrain(int64_t length) { return std::max<int64_t>(1, kElementGrain / length); }

// scale and bias may be NULL.
template <typename T>
OPWRIGHT_CPU_CLONES void NormalizeRows(const T* x, const T* scale, const T* bias, int64_t n_rows,
                                       int64_t n, T epsilon, T* out, T* means, T* inv_stds) {
  const T count = static_cast<T>(n);
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    // The mean of what is added to the first element: exact where all are equal.
    const T first = x[0];
    const auto rest = [=](int64_t i) OPWRIGHT_CPU_TERM { return x[i] - first; };
    const T mean = first + SumOver<T>(n, rest) / count;
    // The second pass over the deviations, which are in the cache: E[x^2] - E[x]^2 would cancel.
    const auto square = [=](int64_t i) OPWRIGHT_CPU_TERM { return (x[i] - mean) * (x[i] - mean); };
    const T variance = SumOver<T>(n, square) / count;
    const T inv_std = T(1) / opwright::functors::Sqrt(variance + epsilon);
    if (scale != nullptr && bias != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * inv_std * scale[i] + bias[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * inv_std;
      for (int64_t i = 0; scale != nullptr && i < n; ++i) out[i] *= scale[i];
      for (int64_t i = 0; bias != nullptr && i < n; ++i) out[i] += bias[i];
    }
    means[row] = mean;
    inv_stds[row] = inv_std;
  }
}

// Slots: x, scale, bias; out, mean, inv_std.
template <typename T>
struct LayerNormKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    rows_ = RowsOf(ctx.input(0).shape(), attrs.begin_norm_axis);
    constexpr auto kItemBytes = static_cast<int64_t>(sizeof(T));
    stream_ = rows_.numel() * kItemBytes >= kStreamBytes && rows_.length >= kLeastStreamedRow &&
              rows_.length * kItemBytes <= kMostStreamedRowBytes;
    ctx.SetEstimate(StreamNs(3 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs& attrs) const {
    T* mean = ctx.output(1).data<T>();
    T* inv_std = ctx.output(2).data<T>();
    if (rows_.numel() == 0) {
      std::fill(mean, mean + rows_.outer, T(0));
      std::fill(inv_std, inv_std + rows_.outer, T(0));
      return opwright::Status::Ok();
    }
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr;
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    const int64_t n = rows_.length;
    const T epsilon = static_cast<T>(attrs.epsilon);
    ParallelFor(ctx.n_threads(), rows_.outer, RowGrain(n), 1, [=](int64_t begin, int64_t end) {
      const bool stream = stream_ && out != x && scale != nullptr && bias != nullptr;
      const auto rows = stream ? StreamNormalizedRows<T> : NormalizeRows<T>;
      rows(x + begin * n, scale, bias, end - begin, n, epsilon, out + begin * n, mean + begin,
           inv_std + begin);
    });
    return opwright::Status::Ok();
  }

  Lines rows_;
  bool stream_ = false;
};

// x_grad = inv_std * (g - mean(g) - normal * mean(g * normal)), g being out_grad * scale. That is
// kept in x_grad, rounded: in one operation with the difference it would leave its rounding error,
// times a large inv_std, where g equals its mean.
template <typename T>
OPWRIGHT_CPU_CLONES void XGradRows(const T* x, const T* scale, const T* mean, const T* inv_std,
                                   const T* grad, int64_t n_rows, int64_t n, T* x_grad) {
  const T count = static_cast<T>(n);
  for (int64_t row = 0; row < n_rows; ++row, x += n, grad += n, x_grad += n) {
    const T center = mean[row], spread = inv_std[row];
    for (int64_t i = 0; scale != nullptr && i < n; ++i) x_grad[i] = grad[i] * scale[i];
    const T* scaled = scale != nullptr ? x_grad : grad;
    const T along = SumOf(scaled, n) / count;
    const auto term = [=](int64_t i)
                          OPWRIGHT_CPU_TERM { return scaled[i] * ((x[i] - center) * spread); };
    const T across = SumOver<T>(n, term) / count;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T normal = (x[i] - center) * spread;
      x_grad[i] = (scaled[i] - (normal * across + along)) * spread;
    }
  }
}

// Adds up a block of rows: sums[0, n) of grad and sums[n, 2n) of grad * normal.
template <typename T>
OPWRIGHT_CPU_CLONES void SumParameterGrads(const T* x, const T* mean, const T* inv_std,
                                           const T* grad, int64_t n_rows, int64_t n, T* sums) {
  T* normal_sums = sums + n;
  for (int64_t i = 0; i < 2 * n; ++i) sums[i] = 0;
  for (int64_t row = 0; row < n_rows; ++row, x += n, grad += n) {
    const T center = mean[row], spread = inv_std[row];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sums[i] += grad[i];
      normal_sums[i] += grad[i] * ((x[i] - center) * spread);
    }
  }
}

// Slots: x, scale, bias (its shape only), mean, inv_std, out_grad; x_grad, scale_grad, bias_grad.
template <typename T>
struct LayerNormGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LayerNormAttrs& attrs) {
    rows_ = RowsOf(ctx.input(0).shape(), attrs.begin_norm_axis);
    // Many rows a block where they are short, and not more than 64 blocks, to be added in turn.
    block_ = std::max((rows_.outer + 63) / 64, kRowBlock);
    n_blocks_ = (rows_.outer + block_ - 1) / block_;
    if (ctx.has_output(1) || ctx.has_output(2)) {
      ctx.SetWorkspace(static_cast<uint64_t>(2 * n_blocks_ * rows_.length) * sizeof(T));
    }
    ctx.SetEstimate(StreamNs(5 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LayerNormAttrs&) const {
    if (rows_.numel() == 0) return FillZero(ctx);
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr;
    const T* mean = ctx.input(3).data<T>();
    const T* inv_std = ctx.input(4).data<T>();
    const T* grad = ctx.input(5).data<T>();
    const int64_t n = rows_.length;
    if (ctx.has_output(0)) {
      T* x_grad = ctx.output(0).data<T>();
      ParallelFor(ctx.n_threads(), rows_.outer, RowGrain(n), 1, [=](int64_t begin, int64_t end) {
        XGradRows(x + begin * n, scale, mean + begin, inv_std + begin, grad + begin * n,
                  end - begin, n, x_grad + begin * n);
      });
    }
    if (!ctx.has_output(1) && !ctx.has_output(2)) return opwright::Status::Ok();
    T* sums = ctx.workspace<T>();
    const int64_t grain = std::max<int64_t>(1, RowGrain(n) / block_);
    ParallelFor(ctx.n_threads(), n_blocks_, grain, 1, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block * block_;
        SumParameterGrads(x + row * n, mean + row, inv_std + row, grad + row * n,
                          std::min(block_, rows_.outer - row), n, sums + 2 * n * block);
      }
    });
    for (int64_t block = 1; block < n_blocks_; ++block) {
      for (int64_t i = 0; i < 2 * n; ++i) sums[i] += sums[2 * n * block + i];
    }
    if (ctx.has_output(1)) std::copy(sums + n, sums + 2 * n, ctx.output(1).data<T>());
    if (ctx.has_output(2)) std::copy(sums, sums + n, ctx.output(2).data<T>());
    return opwright::Status::Ok();
  }

  static opwright::Status FillZero(const opwright::RunContext& ctx) {
    for (uint32_t slot = 0; slot < 3; ++slot) {
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

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm", "cpu", opwright_cpu::LayerNormKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("layer_norm_grad", "cpu", opwright_cpu::LayerNormGradKernel, float,
                             double);
