// batch_norm with fused residual and activation, and its gradients. Images are of type T.
// Parameters and statistics are of type P: T, or float if images have 16 bits.
#include "columns.h"
#include "functions.h"

using namespace opwright_cuda;

// The layout [outer, channels, inner] of the `n` partial results of each channel.
struct Parts {
  int64_t channels;
  int64_t inner;
  int64_t n;

  OW_INLINE int64_t At(int64_t channel, int64_t i) const {
    if (inner == 1) return i * channels + channel;
    return (i / inner * channels + channel) * inner + i % inner;
  }
};

// Combines the partial results of a channel in the threads of a block.
template <typename T, typename Function>
OW_INLINE T PutTogether(const T* results, const Parts& parts, int64_t channel, Function function) {
  T all = Function::Identity();
  for (int64_t i = threadIdx.x; i < parts.n; i += blockDim.x) {
    all = function(all, results[parts.At(channel, i)]);
  }
  return BlockReduce(all, function);
}

// Returns the first element of a channel, or 0 if it is not finite. Moments are computed relative
// to this element, because a large mean would cause large rounding errors in partial means.
template <typename T>
OW_INLINE Compute<T> OriginOf(Compute<T> first) {
  return first - first == Compute<T>(0) ? first : Compute<T>(0);
}

// Computes the moments of `n` values from the deviations from their mean.
template <int n, typename Values>
OW_INLINE auto MomentsOfFew(const Values& value) {
  using C = decltype(value(0));
  C sum = value(0);
#pragma unroll
  for (int i = 1; i < n; ++i) sum += value(i);
  Moments<C> made = {C(n), sum / C(n), C(0)};
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const C change = value(i) - made.mean;
    made.squares += change * change;
  }
  return made;
}

// Computes the moments of every part of a line. The moments of a few elements at a time are
// combined with the moments of the previous elements.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    moments_lines(Moments<Compute<T>>* moments, const T* x, int64_t n_channels, Lines lines,
                  int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t channel = line.is_there ? line.line % n_channels : 0;
  const C origin = OriginOf<T>(Load(x[channel * lines.length]));
  Moments<C> all = MomentsOf<C>::Identity();
  line.EachBlock([&](auto few, int64_t i, C*) {
    constexpr int kFew = decltype(few)::value;
    const auto block = ReadBlock<kFew>(line, x, i);
    const auto found = MomentsOfFew<kFew>([&](int k) { return Load(block.at[k]) - origin; });
    all.Join(found, ShareOf(C(kFew), all.count + C(kFew)));
  });
  all = line.Reduce(all, MomentsOf<C>());
  if (line.IsFirst()) moments[line.slot] = all;
}

// Like moments_lines, but computes the moments of every part of a column, row by row.
template <typename Team, typename T>
__global__ void __launch_bounds__(kTileThreads)
    moments_columns(Moments<Compute<T>>* moments, const T* x, int64_t, Lines lines, int32_t width) {
  using C = Compute<T>;
  constexpr int n = Team::kColumns;
  const Team team(lines, width);
  auto origin = team.ReadColumns(x);
#pragma unroll
  for (int k = 0; k < n; ++k) origin.at[k] = OriginOf<T>(origin.at[k]);
  Moments<C> all[n];
#pragma unroll
  for (int k = 0; k < n; ++k) all[k] = MomentsOf<C>::Identity();
  team.template EachRow<kRowsAtOnce>([&](auto many, int64_t, int64_t place) {
    constexpr int kMany = decltype(many)::value;
    Vector<T, n> rows[kMany];
    team.Read(rows, x, place);
    const C share = ShareOf(C(kMany), all[0].count + C(kMany));
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const auto distance = [&](int r) { return Load(rows[r].at[k]) - origin.at[k]; };
      all[k].Join(MomentsOfFew<kMany>(distance), share);
    }
  });
  team.Reduce(all, MomentsOf<C>());
  if (!team.IsFirst()) return;
#pragma unroll
  for (int k = 0; k < n; ++k) moments[team.slot + k] = all[k];
}

template <typename P>
struct RunningStatistics {
  const P* mean;
  const P* variance;
  P* mean_out;  // mean_out and variance_out share memory with the inputs above
  P* variance_out;
  P* saved_mean;
  P* saved_inv_std;
};

template <typename P>
OW_INLINE P Moved(Compute<P> running, Compute<P> share, Compute<P> batch) {
  return Store<P>(running * share + (Compute<P>(1) - share) * batch);
}

// Computes the statistics of each channel from the moments of its parts. A block processes one
// channel, which has `n` runs of `size` elements. The running variance uses variance * correction.
// If squares overflow or underflow, they are scaled and summed again.
template <typename T, typename P>
__global__ void batch_statistics(RunningStatistics<P> s, const Moments<Compute<T>>* moments,
                                 Parts parts, const T* x, int64_t n, int64_t size,
                                 Compute<T> momentum, Compute<T> epsilon, Compute<T> correction) {
  using C = Compute<T>;
  const int64_t channel = blockIdx.x;
  const Moments<C> all = PutTogether(moments, parts, channel, MomentsOf<C>());
  const C mean = OriginOf<T>(Load(x[channel * size])) + all.mean;
  const C variance = all.squares / all.count;
  C inverse = C(1) / functors::Sqrt(variance + epsilon);
  if (!functors::IsOrdinary(variance + epsilon)) {
    functors::SquareSum<C> sum = SquareSumOf<C>::Identity();
    for (int64_t i = threadIdx.x; i < n * size; i += blockDim.x) {
      sum.Add(Load(x[(i / size * gridDim.x + channel) * size + i % size]) - mean);
    }
    sum = BlockReduce(sum, SquareSumOf<C>());
    inverse = functors::InverseDeviation(sum.Root(), all.count, epsilon);
  }
  if (threadIdx.x != 0) return;
  s.saved_mean[channel] = Store<P>(mean);
  s.saved_inv_std[channel] = Store<P>(inverse);
  s.mean_out[channel] = Moved<P>(Load(s.mean[channel]), momentum, mean);
  s.variance_out[channel] = Moved<P>(Load(s.variance[channel]), momentum, variance * correction);
}

// Uses the running statistics instead of the batch statistics.
template <typename P>
__global__ void use_statistics(RunningStatistics<P> s, int64_t n_channels, Compute<P> epsilon) {
  using C = Compute<P>;
  for (int64_t i = GlobalIndex(); i < n_channels; i += GridThreads()) {
    const P mean = s.mean[i];
    const P variance = s.variance[i];
    s.saved_mean[i] = mean;
    s.saved_inv_std[i] = Store<P>(C(1) / functors::Sqrt(Load(variance) + epsilon));
    s.mean_out[i] = mean;
    s.variance_out[i] = variance;
  }
}

// How the gradient of the normalized value is computed. The gradient is out_grad (kOutGrad) or the
// gradient through relu, which recomputes the relu input (kAnew) or reads the relu output (kOut).
// With kOut, this gradient is also written for the residual.
enum class Source { kOutGrad, kAnew, kOut };

template <typename T, typename P>
struct GradInputs {
  const T* x;
  const P* mean;
  const P* inv_std;
  const P* scale;
  const P* bias;
  const T* out;
  const T* out_grad;
  T* residual_grad;
};

// Per-channel values for the gradients; scale and bias are set only if they are used.
template <typename T, Source source>
struct GradOfChannel {
  using C = Compute<T>;
  C mean;
  C inv_std;
  C scale;
  C bias;

  // Returns the gradient of the normalized value; only kOut uses `out`.
  OW_INLINE C Gradient(C x, C out, C out_grad) const {
    if constexpr (source == Source::kOut) return ReluGrad<C>()(out, out_grad);
    if constexpr (source == Source::kOutGrad) return out_grad;
    return NormalizeReluGrad<T>()(x, out_grad, mean, inv_std, scale, bias);
  }
  OW_INLINE Pair<C> Term(C x, C grad) const { return {grad, grad * ((x - mean) * inv_std)}; }
};

// Sums the gradient and its product with the normalized value; a line belongs to channel line %
// n_channels.
template <typename Line, typename T, typename P, Source source>
__global__ void __launch_bounds__(kMostLineThreads)
    sums_lines(Pair<Compute<T>>* pairs, GradInputs<T, P> in, int64_t n_channels, Lines lines,
               int32_t width) {
  using C = Compute<T>;
  constexpr bool kIsAnew = source == Source::kAnew;
  Line line(lines, width);
  const int64_t i = line.is_there ? line.line % n_channels : 0;
  const GradOfChannel<T, source> channel{Load(in.mean[i]), Load(in.inv_std[i]),
                                         kIsAnew ? Load(in.scale[i]) : C(0),
                                         kIsAnew ? Load(in.bias[i]) : C(0)};
  Pair<C> sums = PairSumOf<C>::Identity();
  const auto add = [&](C x, C out, C out_grad) {
    const C grad = channel.Gradient(x, out, out_grad);
    sums = PairSumOf<C>()(sums, channel.Term(x, grad));
    return grad;
  };
  if constexpr (source == Source::kOut) {
    const auto write = [&](int64_t, C&, C x, C out, C out_grad) { return add(x, out, out_grad); };
    Transform(line, in.residual_grad, write, in.x, in.out, in.out_grad);
  } else {
    const auto read = [&](int64_t, C&, C x, C out_grad) { add(x, C(0), out_grad); };
    ForEach(line, read, in.x, in.out_grad);
  }
  sums = line.Reduce(sums, PairSumOf<C>());
  if (line.IsFirst()) pairs[line.slot] = sums;
}

// Computes the sums of sums_lines for columns, one per channel.
template <typename Team, typename T, typename P, Source source>
__global__ void __launch_bounds__(kTileThreads, kSummingBlocks)
    sums_columns(Pair<Compute<T>>* pairs, GradInputs<T, P> in, int64_t, Lines lines,
                 int32_t width) {
  using C = Compute<T>;
  constexpr int n = Team::kColumns;
  constexpr bool kIsAnew = source == Source::kAnew;
  const Team team(lines, width);
  const auto mean = team.ReadColumns(in.mean);
  const auto inv_std = team.ReadColumns(in.inv_std);
  const auto scale = team.ReadColumns(kIsAnew ? in.scale : nullptr);
  const auto bias = team.ReadColumns(kIsAnew ? in.bias : nullptr);
  Pair<C> sums[n];
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = PairSumOf<C>::Identity();
  team.template EachRow<kRowsAtOnce>([&](auto many, int64_t, int64_t place) {
    constexpr int kMany = decltype(many)::value;
    Vector<T, n> x[kMany];
    Vector<T, n> out[kMany] = {};
    Vector<T, n> grad[kMany];
    team.Read(x, in.x, place);
    if constexpr (source == Source::kOut) team.Read(out, in.out, place);
    team.Read(grad, in.out_grad, place);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const GradOfChannel<T, source> channel{mean.at[k], inv_std.at[k], scale.at[k], bias.at[k]};
#pragma unroll
      for (int r = 0; r < kMany; ++r) {
        const C value = Load(x[r].at[k]);
        const C made = channel.Gradient(value, Load(out[r].at[k]), Load(grad[r].at[k]));
        sums[k] = PairSumOf<C>()(sums[k], channel.Term(value, made));
        grad[r].at[k] = Store<T>(made);
      }
    }
    if constexpr (source == Source::kOut) team.Write(in.residual_grad, place, grad);
  });
  team.Reduce(sums, PairSumOf<C>());
  if (!team.IsFirst()) return;
#pragma unroll
  for (int k = 0; k < n; ++k) pairs[team.slot + k] = sums[k];
}

// Writes the gradients of bias and scale, either of which may be null. Also writes the means of
// both sums, which are subtracted in the gradient of x. One block processes each channel.
template <typename P>
__global__ void means_of_sums(Compute<P>* grad_means, Compute<P>* normal_means, P* bias_grad,
                              P* scale_grad, const Pair<Compute<P>>* pairs, Parts parts,
                              Compute<P> share) {
  using C = Compute<P>;
  const int64_t channel = blockIdx.x;
  const Pair<C> sums = PutTogether(pairs, parts, channel, PairSumOf<C>());
  if (threadIdx.x != 0) return;
  if (bias_grad != nullptr) bias_grad[channel] = Store<P>(sums.first);
  if (scale_grad != nullptr) scale_grad[channel] = Store<P>(sums.second);
  grad_means[channel] = sums.first * share;
  normal_means[channel] = sums.second * share;
}
