// The gradients of batch_norm, alone or with the activation that the pass fuse_batch_norm fused
// with it.
#include "normalization/attributes.h"
#include "normalization/batch_norm.h"

namespace opwright_cpu {
namespace {

// How the gradient of the normalized values is computed. The gradient is out_grad without an
// activation (kOutGrad), and otherwise also depends on where the derivative of the activation is 0.
// kAnew recomputes the activation input for this; kOut reads the activation output.
enum class Source { kOutGrad, kAnew, kOut };

template <typename E>
struct GradInputs {
  using T = NumberOf<E>;

  const E* x;
  const E* out;
  const E* grad;
  Channels<T> channels;
  const T* inv_std;
  Bounds<T> bounds;
  E* behind;  // receives the gradient of the normalized values from kOut

  template <Source source>
  OPWRIGHT_CPU_INLINE T Gradient(int64_t i, int64_t c) const {
    if constexpr (source == Source::kOut) {
      return bounds.Gradient(ReadElement(out[i]), ReadElement(grad[i]));
    }
    if constexpr (source == Source::kOutGrad) return ReadElement(grad[i]);
    return bounds.Gradient(RoundedElement<E>(channels.Normalized(ReadElement(x[i]), c)),
                           ReadElement(grad[i]));
  }
  OPWRIGHT_CPU_INLINE T Deviation(int64_t i, int64_t c) const {
    return ReadElement(x[i]) - channels.mean[c];
  }
};

// Per-channel sums of the gradient, and of its product with the deviation from the mean.
template <typename T>
struct Sums {
  T* along;
  T* across;

  OPWRIGHT_CPU_INLINE void Add(int64_t n, const T* more_along, const T* more_across) const {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) {
      along[c] += more_along[c];
      across[c] += more_across[c];
    }
  }
};

// Sums a range of rows of all n channels; the memory after the sums has room for as many elements.
template <typename E, Source source>
OPWRIGHT_CPU_CLONES void SumRows(const GradInputs<E>& inputs, int64_t n, const Part& rows,
                                 const Sums<NumberOf<E>>& result) {
  using T = NumberOf<E>;
  const GradInputs<E> in = inputs;
  T* along = result.across + n;
  T* across = along + n;
  std::fill_n(result.along, n, T(0));
  std::fill_n(result.across, n, T(0));
  for (int64_t done = rows.begin; done < rows.end; done += kRows) {
    std::fill_n(along, n, T(0));
    std::fill_n(across, n, T(0));
    for (int64_t row = done; row < std::min(done + kRows, rows.end); ++row) {
      const int64_t first = row * n;
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) {
        const T grad = in.template Gradient<source>(first + c, c);
        along[c] += grad;
        across[c] += grad * in.Deviation(first + c, c);
        if constexpr (source == Source::kOut) in.behind[first + c] = WriteElement<E>(grad);
      }
    }
    result.Add(n, along, across);
  }
}

// Sums one channel, whose elements form runs.
template <typename E, Source source>
OPWRIGHT_CPU_CLONES void SumRuns(const GradInputs<E>& inputs, const Lines& lines, int64_t channel,
                                 const Sums<NumberOf<E>>& result) {
  using T = NumberOf<E>;
  const GradInputs<E> in = inputs;
  const int64_t inner = lines.inner, c = channel;
  T along = 0, across = 0;
  for (int64_t row = 0; row < lines.outer; ++row) {
    const int64_t first = (row * lines.length + c) * inner;
    if constexpr (source == Source::kOut) {
#pragma omp simd
      for (int64_t i = first; i < first + inner; ++i) {
        in.behind[i] = WriteElement<E>(in.template Gradient<source>(i, c));
      }
    }
    along += SumOver<T>(inner, [=](int64_t i) OPWRIGHT_CPU_TERM {
      return in.template Gradient<source>(first + i, c);
    });
    across += SumOver<T>(inner, [=](int64_t i) OPWRIGHT_CPU_TERM {
      return in.template Gradient<source>(first + i, c) * in.Deviation(first + i, c);
    });
  }
  result.along[c] = along;
  result.across[c] = across;
}

// Computes x_grad = factor * (g - along - normal * across), where `means` are `along` and `across`.
template <typename E, Source source>
OPWRIGHT_CPU_CLONES void XGradients(const GradInputs<E>& inputs, const Lines& lines,
                                    const Extent& extent, const Sums<NumberOf<E>>& means,
                                    E* x_grad) {
  using T = NumberOf<E>;
  const GradInputs<E> in = inputs;
  const T *along = means.along, *across = means.across;
  ForElements(lines, extent, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
    const T grad = in.template Gradient<source>(i, c);
    const T normal = in.Deviation(i, c) * in.inv_std[c];
    x_grad[i] = WriteElement<E>((grad - normal * across[c] - along[c]) * in.channels.factor[c]);
  });
}

// Slots of batch_norm_grad: x, scale, bias, mean, variance (these three as shapes), saved_mean,
// saved_inv_std, out_grad; x_grad, scale_grad, bias_grad. Slots of the fused operator: x, scale,
// saved_mean, saved_inv_std, bias?, out?, out_grad; the same outputs and residual_grad?.
template <typename E, bool kFused>
struct BatchNormGradKernelOf {
  using T = NumberOf<E>;
  static constexpr uint32_t kMean = kFused ? 2 : 5, kInvStd = kFused ? 3 : 6;
  static constexpr uint32_t kBias = 4, kOut = 5, kOutGrad = kFused ? 6 : 7;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const BatchNormGradAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), 1);
    if (lines_.inner == 1) pieces_ = RowPieces(lines_);
    ctx.SetWorkspace(static_cast<uint64_t>(3 * lines_.length + pieces_.numel()) * sizeof(T));
    ctx.SetEstimate(
        StreamNs(5 * lines_.numel() * static_cast<int64_t>(sizeof(E)), ctx.n_threads()));
    return bounds_.Parse(attrs.activation.value_or(""));
  }

  opwright::Status Run(const opwright::RunContext& ctx, const BatchNormGradAttrs& attrs) const {
    const int64_t n = lines_.length;
    const T* scale = ctx.input(1).data<T>();
    const T* inv_std = ctx.input(kInvStd).data<T>();
    T* factor = ctx.workspace<T>();
    for (int64_t c = 0; c < n; ++c) factor[c] = inv_std[c] * scale[c];
    GradInputs<E> inputs{};
    inputs.x = ctx.input(0).data<E>();
    inputs.grad = ctx.input(kOutGrad).data<E>();
    inputs.channels = {ctx.input(kMean).data<T>(), factor, nullptr};
    inputs.inv_std = inv_std;
    inputs.bounds = bounds_;
    const Sums<T> sums{factor + n, factor + 2 * n};
    if constexpr (!kFused) {
      Compute<Source::kOutGrad>(ctx, attrs, inputs, sums);
    } else if (ctx.has_input(kBias)) {
      inputs.channels.bias = ctx.input(kBias).data<T>();
      Compute<Source::kAnew>(ctx, attrs, inputs, sums);
    } else if (ctx.has_input(kOut)) {
      inputs.out = ctx.input(kOut).data<E>();
      inputs.behind = ctx.output(3).template data<E>();
      Compute<Source::kOut>(ctx, attrs, inputs, sums);
    } else {
      Compute<Source::kOutGrad>(ctx, attrs, inputs, sums);
    }
    return opwright::Status::Ok();
  }

  template <Source source>
  void Compute(const opwright::RunContext& ctx, const BatchNormGradAttrs& attrs,
               const GradInputs<E>& inputs, const Sums<T>& sums) const {
    E* x_grad = ctx.has_output(0) ? ctx.output(0).data<E>() : nullptr;
    GradInputs<E> known = inputs;
    if constexpr (source == Source::kOut) known.grad = inputs.behind;
    constexpr Source kKnown = source == Source::kOut ? Source::kOutGrad : source;
    const auto write_x_grad = [&](const Extent& extent) {
      if (x_grad != nullptr) XGradients<E, kKnown>(known, lines_, extent, sums, x_grad);
    };
    if (lines_.inner != 1) {
      ForChannels(ctx.n_threads(), lines_, [&](const Extent& extent) {
        SumRuns<E, source>(inputs, lines_, extent.channels.begin, sums);
        FinishSums(ctx, attrs, inputs.inv_std, extent.channels, sums);
        write_x_grad(extent);
      });
      return;
    }
    const int64_t n = lines_.length;
    T* of_pieces = sums.across + n;
    const auto of_piece = [&](int64_t i) {
      T* own = of_pieces + i * RowPieces::kArrays * n;
      return Sums<T>{own, own + n};
    };
    pieces_.ForEach(ctx.n_threads(), [&](int64_t i) {
      SumRows<E, source>(inputs, n, pieces_.extent_of(i).rows, of_piece(i));
    });
    std::fill_n(sums.along, n, T(0));
    std::fill_n(sums.across, n, T(0));
    for (int64_t i = 0; i < pieces_.count(); ++i) {
      sums.Add(n, of_piece(i).along, of_piece(i).across);
    }
    FinishSums(ctx, attrs, inputs.inv_std, {0, n}, sums);
    pieces_.ForEach(ctx.n_threads(), [&](int64_t i) { write_x_grad(pieces_.extent_of(i)); });
  }

  // Writes the gradients of scale and bias, and divides the sums to get means.
  void FinishSums(const opwright::RunContext& ctx, const BatchNormGradAttrs& attrs,
                  const T* inv_std, Part channels, const Sums<T>& sums) const {
    // In training, the batch statistics depend on x, so the mean of x_grad and its component along
    // `normal` are subtracted.
    const T share =
        attrs.training && lines_.count() > 0 ? T(1) / static_cast<T>(lines_.count()) : T(0);
    T* scale_grad = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    T* bias_grad = ctx.has_output(2) ? ctx.output(2).data<T>() : nullptr;
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const T across = sums.across[c] * inv_std[c];
      if (scale_grad != nullptr) scale_grad[c] = across;
      if (bias_grad != nullptr) bias_grad[c] = sums.along[c];
      sums.along[c] *= share;
      sums.across[c] = across * share;
    }
  }

  Lines lines_;
  RowPieces pieces_;
  Bounds<T> bounds_;
};

template <typename T>
struct BatchNormGradKernel : BatchNormGradKernelOf<T, false> {};
template <typename E>
struct FusedBatchNormGradKernel : BatchNormGradKernelOf<E, true> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_NORM("batch_norm_grad", opwright_cpu::BatchNormGradKernel);
OPWRIGHT_CPU_REGISTER_NORM("std.batch_norm_activation_grad",
                           opwright_cpu::FusedBatchNormGradKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("std.batch_norm_halves_grad", "cpu",
                             opwright_cpu::FusedBatchNormGradKernel, OPWRIGHT_CPU_HALVES);
