// batch_norm and its gradient. An array is [batch, channels, inner]: a channel is `batch` runs of
// `inner` elements; where inner is 1, channels lie side by side and are computed so.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Channels that are computed side by side.
constexpr int64_t kChannelStrip = 64;

// Sums of term(i) over the channels [begin, end) of x; i counts elements of the whole array, c
// channels from `begin`. The sums of many runs are added up in T again: pairwise within a run.
template <typename T, typename Term>
OPWRIGHT_CPU_INLINE void SumChannels(const Lines& lines, int64_t begin, int64_t end,
                                     const Term& term, T* sums) {
  const int64_t inner = lines.inner, stride = lines.length * inner;
  for (int64_t c = 0; c < end - begin; ++c) sums[c] = 0;
  if (inner == 1) {
    constexpr int64_t kRows = 64;  // added up by themselves, for the sake of long columns
    for (int64_t block = 0; block < lines.outer; block += kRows) {
      T partial[kChannelStrip] = {};
      const int64_t last = std::min(block + kRows, lines.outer);
      for (int64_t row = block; row < last; ++row) {
        const int64_t first = row * stride + begin;
#pragma omp simd
        for (int64_t c = 0; c < end - begin; ++c) partial[c] += term(first + c, c);
      }
      for (int64_t c = 0; c < end - begin; ++c) sums[c] += partial[c];
    }
    return;
  }
  for (int64_t c = 0; c < end - begin; ++c) {
    for (int64_t row = 0; row < lines.outer; ++row) {
      const int64_t first = row * stride + (begin + c) * inner;
      sums[c] += SumOver<T>(inner, [&](int64_t i) OPWRIGHT_CPU_TERM { return term(first + i, c); });
    }
  }
}

// Calls write(i, c) for all elements of the channels [begin, end).
template <typename Write>
OPWRIGHT_CPU_INLINE void ForChannels(const Lines& lines, int64_t begin, int64_t end,
                                     const Write& write) {
  const int64_t inner = lines.inner, stride = lines.length * inner;
  for (int64_t row = 0; row < lines.outer; ++row) {
    if (inner == 1) {
      const int64_t first = row * stride + begin;
#pragma omp simd
      for (int64_t c = 0; c < end - begin; ++c) write(first + c, c);
      continue;
    }
    for (int64_t c = 0; c < end - begin; ++c) {
      const int64_t first = row * stride + (begin + c) * inner;
#pragma omp simd
      for (int64_t i = 0; i < inner; ++i) write(first + i, c);
    }
  }
}

// Mean and variance of the channels [begin, end).
template <typename T>
OPWRIGHT_CPU_CLONES void Statistics(const T* x, const Lines& lines, int64_t begin, int64_t end,
                                    T* mean, T* variance) {
  const T count = static_cast<T>(lines.outer * lines.inner);
  // The mean of what is added to the first element: exact where all are equal. A small error would
  // be large beside deviations that are almost 0.
  T firsts[kChannelStrip];
  for (int64_t c = 0; c < end - begin; ++c) {
    const T first = x[(begin + c) * lines.inner];
    firsts[c] = first - first == T(0) ? first : T(0);
  }
  const T* from = firsts;
  const auto rest = [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM { return x[i] - from[c]; };
  SumChannels(lines, begin, end, rest, mean);
  for (int64_t c = 0; c < end - begin; ++c) mean[c] = firsts[c] + mean[c] / count;
  // The second pass over the deviations: E[x^2] - E[x]^2 would cancel.
  const auto square = [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
    const T deviation = x[i] - mean[c];
    return deviation * deviation;
  };
  SumChannels(lines, begin, end, square, variance);
  for (int64_t c = 0; c < end - begin; ++c) variance[c] /= count;
}

template <typename T>
OPWRIGHT_CPU_CLONES void Normalize(const T* x, const Lines& lines, int64_t begin, int64_t end,
                                   const T* mean, const T* factor, const T* bias, T* out) {
  ForChannels(lines, begin, end, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
    out[i] = (x[i] - mean[c]) * factor[c] + bias[c];
  });
}

// Calls function(begin, end) for strips of channels, shared by threads: of one channel where its
// runs are long, so that what is read again is in the cache.
template <typename Function>
void ForChannelStrips(int32_t n_threads, const Lines& lines, const Function& function) {
  const int64_t each = std::max<int64_t>(lines.outer * lines.inner, 1);
  const int64_t grain = std::max<int64_t>(lines.inner == 1 ? 16 : 1, kElementGrain / each);
  ParallelFor(n_threads, lines.length, grain, lines.inner == 1 ? 16 : 1,
              [&](int64_t begin, int64_t end) {
                const int64_t width = lines.inner == 1 ? kChannelStrip : 1;
                for (; begin < end; begin += width) {
                  function(begin, std::min(begin + width, end));
                }
              });
}

// Slots: x, scale, bias, mean, variance; out, mean_out, variance_out, saved_mean, saved_inv_std.
template <typename T>
struct BatchNormKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const BatchNormAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), 1);
    const int64_t passes = attrs.training ? 4 : 2;
    ctx.SetEstimate(
        StreamNs(passes * lines_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const BatchNormAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.input(1).data<T>();
    const T* bias = ctx.input(2).data<T>();
    const T* running[] = {ctx.input(3).data<T>(), ctx.input(4).data<T>()};
    T* out = ctx.output(0).data<T>();
    T* running_out[] = {ctx.output(1).data<T>(), ctx.output(2).data<T>()};
    T* saved_mean = ctx.output(3).data<T>();
    T* saved_inv_std = ctx.output(4).data<T>();
    const bool use_batch = attrs.training && lines_.count() > 0;  // an empty one has no statistics
    const T momentum = static_cast<T>(attrs.momentum);
    const T rest = static_cast<T>(1 - attrs.momentum);
    const T epsilon = static_cast<T>(attrs.epsilon);
    ForChannelStrips(ctx.n_threads(), lines_, [=](int64_t begin, int64_t end) {
      T batch[2][kChannelStrip];
      T factor[kChannelStrip];
      if (use_batch) Statistics(x, lines_, begin, end, batch[0], batch[1]);
      for (int64_t c = begin; c < end; ++c) {
        for (int which = 0; which < 2; ++which) {  // the running ones may lie where they lay
          const T old = running[which][c];
          T& now = batch[which][c - begin];
          running_out[which][c] = use_batch ? momentum * old + rest * now : old;
          if (!use_batch) now = old;
        }
        saved_mean[c] = batch[0][c - begin];
        saved_inv_std[c] = T(1) / opwright::functors::Sqrt(batch[1][c - begin] + epsilon);
        factor[c - begin] = saved_inv_std[c] * scale[c];
      }
      Normalize(x, lines_, begin, end, saved_mean + begin, factor, bias + begin, out);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

// Sums of out_grad and of out_grad * normal over each of the channels [begin, end).
template <typename T>
OPWRIGHT_CPU_CLONES void GradSums(const T* x, const T* grad, const Lines& lines, int64_t begin,
                                  int64_t end, const T* mean, const T* inv_std, T* sums,
                                  T* normal_sums) {
  SumChannels(
      lines, begin, end, [=](int64_t i, int64_t) OPWRIGHT_CPU_TERM { return grad[i]; }, sums);
  const auto term = [=](int64_t i, int64_t c)
                        OPWRIGHT_CPU_TERM { return grad[i] * ((x[i] - mean[c]) * inv_std[c]); };
  SumChannels(lines, begin, end, term, normal_sums);
}

// x_grad = factor * (g - along - normal * across).
template <typename T>
OPWRIGHT_CPU_CLONES void XGradients(const T* x, const T* grad, const Lines& lines, int64_t begin,
                                    int64_t end, const T* mean, const T* inv_std, const T* factor,
                                    const T* along, const T* across, T* x_grad) {
  ForChannels(lines, begin, end, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
    const T normal = (x[i] - mean[c]) * inv_std[c];
    x_grad[i] = (grad[i] - normal * across[c] - along[c]) * factor[c];
  });
}

// Slots: x, scale, bias, mean, variance (these three as shapes), saved_mean, saved_inv_std,
// out_grad; x_grad, scale_grad, bias_grad.
template <typename T>
struct BatchNormGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const BatchNormAttrs&) {
    lines_ = LinesAlong(ctx.input(0).shape(), 1);
    ctx.SetEstimate(
        StreamNs(6 * lines_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const BatchNormAttrs& attrs) const {
    T* results[3];
    for (uint32_t slot = 0; slot < 3; ++slot) {
      results[slot] = ctx.has_output(slot) ? ctx.output(slot).data<T>() : nullptr;
    }
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.input(1).data<T>();
    const T* mean = ctx.input(5).data<T>();
    const T* inv_std = ctx.input(6).data<T>();
    const T* grad = ctx.input(7).data<T>();
    T *x_grad = results[0], *scale_grad = results[1], *bias_grad = results[2];
    // In training the batch's statistics depend on x: x_grad loses its mean and its part along
    // normal.
    const T share =
        attrs.training && lines_.count() > 0 ? T(1) / static_cast<T>(lines_.count()) : T(0);
    ForChannelStrips(ctx.n_threads(), lines_, [=](int64_t begin, int64_t end) {
      T sums[kChannelStrip], normal_sums[kChannelStrip], factor[kChannelStrip];
      GradSums(x, grad, lines_, begin, end, mean + begin, inv_std + begin, sums, normal_sums);
      for (int64_t c = begin; c < end; ++c) {
        if (bias_grad != nullptr) bias_grad[c] = sums[c - begin];
        if (scale_grad != nullptr) scale_grad[c] = normal_sums[c - begin];
        sums[c - begin] *= share;
        normal_sums[c - begin] *= share;
        factor[c - begin] = inv_std[c] * scale[c];
      }
      if (x_grad == nullptr) return;
      XGradients(x, grad, lines_, begin, end, mean + begin, inv_std + begin, factor, sums,
                 normal_sums, x_grad);
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("batch_norm", "cpu", opwright_cpu::BatchNormKernel, float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("batch_norm", opwright_cpu::BatchNormKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("batch_norm_grad", "cpu", opwright_cpu::BatchNormGradKernel, float,
                             double);
OPWRIGHT_CPU_REGISTER_WIDENED("batch_norm_grad", opwright_cpu::BatchNormGradKernel);
