// batch_norm, alone or with the residual and the activation that the pass fuse_batch_norm fused
// with it.
#include "normalization/batch_norm.h"

#include <opwright/functors.h>

#include "normalization/attributes.h"

namespace opwright_cpu {
namespace {

// Sums are computed relative to the first element so that the mean is exact if all elements are
// equal. Even a small error would be large compared with deviations close to 0.
template <typename T>
OPWRIGHT_CPU_INLINE T FirstOrZero(T first) {
  return first - first == T(0) ? first : T(0);
}

// Computes the mean and variance of one channel, whose elements form runs.
template <typename E>
OPWRIGHT_CPU_CLONES void RunStatistics(const E* x, const Lines& lines, int64_t channel,
                                       NumberOf<E>* mean, NumberOf<E>* variance) {
  using T = NumberOf<E>;
  const int64_t inner = lines.inner, stride = lines.length * inner;
  const T count = static_cast<T>(lines.count());
  const E* runs = x + channel * inner;
  const T first = FirstOrZero(ReadElement(*runs));
  T sum = 0, squares = 0;
  for (int64_t row = 0; row < lines.outer; ++row) {
    const E* run = runs + row * stride;
    sum +=
        SumOver<T>(inner, [=](int64_t i) OPWRIGHT_CPU_TERM { return ReadElement(run[i]) - first; });
  }
  const T middle = first + sum / count;
  // A second pass sums squared deviations, because E[x^2] - E[x]^2 suffers from cancellation.
  for (int64_t row = 0; row < lines.outer; ++row) {
    const E* run = runs + row * stride;
    squares += SumOver<T>(inner, [=](int64_t i) OPWRIGHT_CPU_TERM {
      return (ReadElement(run[i]) - middle) * (ReadElement(run[i]) - middle);
    });
  }
  mean[channel] = middle;
  variance[channel] = squares / count;
}

// Computes 1 / sqrt(variance + epsilon) of one channel for the rare case that squares overflow or
// underflow.
template <typename E>
__attribute__((noinline, cold)) NumberOf<E> InverseOfExtremeChannel(const E* x, const Lines& lines,
                                                                    int64_t channel,
                                                                    NumberOf<E> mean,
                                                                    NumberOf<E> epsilon) {
  using T = NumberOf<E>;
  opwright::functors::SquareSum<T> sum{};
  for (int64_t row = 0; row < lines.outer; ++row) {
    const E* run = x + (row * lines.length + channel) * lines.inner;
    for (int64_t i = 0; i < lines.inner; ++i) sum.Add(ReadElement(run[i]) - mean);
  }
  return opwright::functors::InverseDeviation(sum.Root(), static_cast<T>(lines.count()), epsilon);
}

// The mean and the sum of squared deviations of each of several adjacent channels, over some rows.
// In a chunk, both arrays are followed by two more, for intermediate results.
template <typename T>
struct Moments {
  T* mean;
  T* squares;

  // Merges the statistics of `count` rows into the statistics of `before` rows.
  OPWRIGHT_CPU_INLINE void Add(int64_t n, const T* other_mean, const T* other_squares,
                               int64_t count, int64_t before) const {
    // Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983.
    const T share = static_cast<T>(count) / static_cast<T>(before + count);
    const T product = static_cast<T>(before) * share;
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) {
      const T apart = other_mean[c] - mean[c];
      mean[c] = before == 0 ? other_mean[c] : mean[c] + apart * share;
      squares[c] = before == 0 ? other_squares[c]
                               : squares[c] + (other_squares[c] + apart * apart * product);
    }
  }
};

// Computes the statistics of [n_rows, n] block by block, in two passes over cached data.
template <typename E>
OPWRIGHT_CPU_CLONES void RowMoments(const E* x, int64_t n_rows, int64_t n,
                                    const Moments<NumberOf<E>>& result) {
  using T = NumberOf<E>;
  T* middle = result.squares + n;
  T* sums = middle + n;
  for (int64_t done = 0; done < n_rows; done += kRows) {
    const int64_t count = std::min(kRows, n_rows - done);
    const E* rows = x + done * n;
    for (int64_t c = 0; c < n; ++c) {
      middle[c] = FirstOrZero(ReadElement(rows[c]));
      sums[c] = ReadElement(rows[c]) - middle[c];
    }
    for (int64_t row = 1; row < count; ++row) {
      const E* now = rows + row * n;
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) sums[c] += ReadElement(now[c]) - middle[c];
    }
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) {
      middle[c] += sums[c] / static_cast<T>(count);
      sums[c] = 0;
    }
    for (int64_t row = 0; row < count; ++row) {
      const E* now = rows + row * n;
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) {
        const T apart = ReadElement(now[c]) - middle[c];
        sums[c] += apart * apart;
      }
    }
    result.Add(n, middle, sums, count, done);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void PutTogether(const RowPieces& pieces, const T* of_pieces, int64_t n,
                                     const Moments<T>& result) {
  int64_t n_rows = 0;
  for (int64_t i = 0; i < pieces.count(); ++i) {
    const T* piece = of_pieces + i * RowPieces::kArrays * n;
    result.Add(n, piece, piece + n, pieces.rows_of(i), n_rows);
    n_rows += pieces.rows_of(i);
  }
  for (int64_t c = 0; c < n; ++c) result.squares[c] /= static_cast<T>(n_rows);
}

// Normalized 16-bit values are rounded before a residual is added, as without fusion.
template <typename E, bool kResidual>
OPWRIGHT_CPU_CLONES void Normalize(const E* x, const E* residual, const Lines& lines,
                                   const Extent& extent, const Channels<NumberOf<E>>& channels,
                                   const Bounds<NumberOf<E>>& bounds, E* out) {
  const Channels<NumberOf<E>> of = channels;
  const Bounds<NumberOf<E>> within = bounds;
  ForElements(lines, extent, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
    const NumberOf<E> normalized = RoundedElement<E>(of.Normalized(ReadElement(x[i]), c));
    out[i] =
        WriteElement<E>(within.Cut(kResidual ? normalized + ReadElement(residual[i]) : normalized));
  });
}

// Slots: x, scale, bias, mean, variance, and for the fused operator residual?; out, mean_out,
// variance_out, saved_mean, saved_inv_std.
template <typename E>
struct BatchNormKernel {
  using T = NumberOf<E>;
  static constexpr uint32_t kResidual = 5;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const BatchNormAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), 1);
    // The statistics of an empty batch are undefined.
    uses_batch_ = attrs.training && lines_.count() > 0;
    if (uses_batch_ && lines_.inner == 1) pieces_ = RowPieces(lines_);
    ctx.SetWorkspace(static_cast<uint64_t>(3 * lines_.length + pieces_.numel()) * sizeof(T));
    const int64_t passes = attrs.training ? 3 : 2;
    ctx.SetEstimate(
        StreamNs(passes * lines_.numel() * static_cast<int64_t>(sizeof(E)), ctx.n_threads()));
    return bounds_.Parse(attrs.activation.value_or(""));
  }

  opwright::Status Run(const opwright::RunContext& ctx, const BatchNormAttrs& attrs) const {
    const E* x = ctx.input(0).data<E>();
    const bool may_add = attrs.activation.has_value() && ctx.has_input(kResidual);
    const E* residual = may_add ? ctx.input(kResidual).data<E>() : nullptr;
    E* out = ctx.output(0).data<E>();
    T* mean = ctx.workspace<T>();
    T* variance = mean + lines_.length;
    T* factor = variance + lines_.length;
    const Channels<T> channels{ctx.output(3).data<T>(), factor, ctx.input(2).data<T>()};
    const auto normalize = [&](const Extent& extent) {
      const auto function = residual == nullptr ? &Normalize<E, false> : &Normalize<E, true>;
      function(x, residual, lines_, extent, channels, bounds_, out);
    };
    if (lines_.inner == 1) {
      if (uses_batch_) ComputeMoments(x, ctx.n_threads(), {mean, variance}, factor + lines_.length);
      FinishStatistics(ctx, attrs, {0, lines_.length}, mean, variance, factor);
      const RowPieces rows(lines_);
      rows.ForEach(ctx.n_threads(), [&](int64_t i) { normalize(rows.extent_of(i)); });
    } else {
      ForChannels(ctx.n_threads(), lines_, [&](const Extent& extent) {
        if (uses_batch_) RunStatistics(x, lines_, extent.channels.begin, mean, variance);
        FinishStatistics(ctx, attrs, extent.channels, mean, variance, factor);
        normalize(extent);
      });
    }
    return opwright::Status::Ok();
  }

  // Computes the moments of adjacent channels; `of_pieces` is memory for the chunks' moments.
  void ComputeMoments(const E* x, int32_t n_threads, const Moments<T>& result, T* of_pieces) const {
    const int64_t n = lines_.length;
    pieces_.ForEach(n_threads, [&](int64_t i) {
      T* own = of_pieces + i * RowPieces::kArrays * n;
      RowMoments(x + pieces_.extent_of(i).rows.begin * n, pieces_.rows_of(i), n,
                 Moments<T>{own, own + n});
    });
    PutTogether(pieces_, of_pieces, n, result);
  }

  // Writes all values that are derived from the batch statistics or the running statistics.
  void FinishStatistics(const opwright::RunContext& ctx, const BatchNormAttrs& attrs, Part channels,
                        T* mean, T* variance, T* factor) const {
    const T* scale = ctx.input(1).data<T>();
    const T momentum = static_cast<T>(attrs.momentum);
    const T rest = static_cast<T>(1 - attrs.momentum);
    const T epsilon = static_cast<T>(attrs.epsilon);
    T* batch[] = {mean, variance};
    const double n = static_cast<double>(lines_.count());
    const T corrections[] = {T(1), attrs.unbiased ? static_cast<T>(n / (n - 1)) : T(1)};
    for (uint32_t which = 0; which < 2; ++which) {  // running statistics may share their memory
      const T* running = ctx.input(3 + which).data<T>();
      T* running_out = ctx.output(1 + which).data<T>();
      const T share = rest * corrections[which];
      for (int64_t c = channels.begin; c < channels.end; ++c) {
        const T old = running[c];
        running_out[c] = uses_batch_ ? momentum * old + share * batch[which][c] : old;
        if (!uses_batch_) batch[which][c] = old;
      }
    }
    T* saved_mean = ctx.output(3).data<T>();
    T* saved_inv_std = ctx.output(4).data<T>();
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      saved_mean[c] = mean[c];
      const T square = variance[c] + epsilon;
      const bool is_extreme = uses_batch_ && !opwright::functors::IsOrdinary(square);
      saved_inv_std[c] =
          is_extreme ? InverseOfExtremeChannel(ctx.input(0).data<E>(), lines_, c, mean[c], epsilon)
                     : T(1) / opwright::functors::Sqrt(square);
      factor[c] = saved_inv_std[c] * scale[c];
    }
  }

  Lines lines_;
  RowPieces pieces_;  // chunks whose moments are combined
  Bounds<T> bounds_;
  bool uses_batch_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_NORM("batch_norm", opwright_cpu::BatchNormKernel);
OPWRIGHT_CPU_REGISTER_NORM("std.batch_norm_activation", opwright_cpu::BatchNormKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("std.batch_norm_halves", "cpu", opwright_cpu::BatchNormKernel,
                             OPWRIGHT_CPU_HALVES);
