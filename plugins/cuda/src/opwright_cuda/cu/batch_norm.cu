// batch_norm with what follows it, and the gradients.
#include "functions.h"
#include "lines.h"

using namespace opwright_cuda;

// Where `n` values that add up to a sum lie: [outer, columns, inner], one column each.
struct Parts {
  int64_t columns;
  int64_t inner;

  OW_INLINE int64_t At(int64_t column, int64_t i) const {
    return (i / inner * columns + column) * inner + i % inner;
  }
};

// Of every part of a line: from the deviations from its own mean.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    moments_lines(Moments<Compute<T>>* moments, const T* x, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(line.end - line.begin);
  C sum = C(0);
  const auto add = [&](int64_t, C& kept, C value) {
    kept = value;
    sum += value;
  };
  ForEach(line, add, x);
  const C center = line.Reduce(sum, SumOf<C>()) / n;
  C squares = C(0);
  const auto add_square = [&](int64_t, C kept, C again) {
    const C change = (Line::kKeeps ? kept : again) - center;
    squares += change * change;
  };
  ForEach(line, add_square, Again<T>{x});
  squares = line.Reduce(squares, SumOf<C>());
  if (line.IsFirst()) moments[line.slot] = {n, center, squares};
}

template <typename T>
struct RunningStatistics {
  const T* mean;
  const T* variance;
  T* mean_out;  // these lie on the ones above
  T* variance_out;
  T* saved_mean;
  T* saved_inv_std;
};

template <typename T>
OW_INLINE T Moved(Compute<T> running, Compute<T> share, Compute<T> batch) {
  return Store<T>(running * share + (Compute<T>(1) - share) * batch);
}

// The statistics of each channel, from those of its parts: one block a channel.
template <typename T>
__global__ void batch_statistics(RunningStatistics<T> s, const Moments<Compute<T>>* moments,
                                 Parts parts, int64_t n, Compute<T> momentum, Compute<T> epsilon) {
  using C = Compute<T>;
  const int64_t channel = blockIdx.x;
  Moments<C> all = MomentsOf<C>::Identity();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    all = MomentsOf<C>()(all, moments[parts.At(channel, i)]);
  }
  all = BlockReduce(all, MomentsOf<C>());
  if (threadIdx.x != 0) return;
  const C variance = all.squares / all.count;
  s.saved_mean[channel] = Store<T>(all.mean);
  s.saved_inv_std[channel] = Store<T>(C(1) / functors::Sqrt(variance + epsilon));
  s.mean_out[channel] = Moved<T>(Load(s.mean[channel]), momentum, all.mean);
  s.variance_out[channel] = Moved<T>(Load(s.variance[channel]), momentum, variance);
}

// The running statistics in place of the batch's.
template <typename T>
__global__ void use_statistics(RunningStatistics<T> s, int64_t n_channels, Compute<T> epsilon) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < n_channels; i += GridThreads()) {
    const T mean = s.mean[i];
    const T variance = s.variance[i];
    s.saved_mean[i] = mean;
    s.saved_inv_std[i] = Store<T>(C(1) / functors::Sqrt(Load(variance) + epsilon));
    s.mean_out[i] = mean;
    s.variance_out[i] = variance;
  }
}

// Where the gradient of what was normalised comes from: it is out_grad; or that behind relu, whose
// input is computed anew; or that behind relu, whose output is read, and it is written for others.
enum class Source { kOutGrad, kAnew, kOut };

template <typename T>
struct GradInputs {
  const T* x;
  const T* mean;
  const T* inv_std;
  const T* scale;
  const T* bias;
  const T* out;
  const T* out_grad;
  T* residual_grad;
};

// What gradients of a channel are computed with.
template <typename T, Source source>
struct GradOfChannel {
  using C = Compute<T>;
  C mean;
  C inv_std;
  C scale;
  C bias;

  OW_INLINE GradOfChannel(const GradInputs<T>& in, int64_t channel)
      : mean(Load(in.mean[channel])), inv_std(Load(in.inv_std[channel])), scale(0), bias(0) {
    if constexpr (source != Source::kAnew) return;
    scale = Load(in.scale[channel]);
    bias = Load(in.bias[channel]);
  }
  OW_INLINE C Gradient(C x, C out_grad) const {
    if constexpr (source != Source::kAnew) return out_grad;
    return NormalizeReluGrad<T>()(x, out_grad, mean, inv_std, scale, bias);
  }
  OW_INLINE Pair<C> Term(C x, C grad) const { return {grad, grad * ((x - mean) * inv_std)}; }
};

// Sums of the gradient and of its product with the normal; a line is of channel line % n_channels.
template <typename Line, typename T, Source source>
__global__ void __launch_bounds__(kMostLineThreads)
    batch_norm_sums(Pair<Compute<T>>* pairs, GradInputs<T> in, int64_t n_channels, Lines lines,
                    int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const GradOfChannel<T, source> channel(in, line.is_there ? line.line % n_channels : 0);
  Pair<C> sums = PairSumOf<C>::Identity();
  const auto add = [&](C x, C grad) {
    sums = PairSumOf<C>()(sums, channel.Term(x, grad));
    return grad;
  };
  if constexpr (source == Source::kOut) {
    const auto write = [&](int64_t, C&, C x, C out, C out_grad) {
      return add(x, ReluGrad<C>()(out, out_grad));
    };
    Transform(line, in.residual_grad, write, in.x, in.out, in.out_grad);
  } else {
    const auto read = [&](int64_t, C&, C x, C out_grad) { add(x, channel.Gradient(x, out_grad)); };
    ForEach(line, read, in.x, in.out_grad);
  }
  sums = line.Reduce(sums, PairSumOf<C>());
  if (line.IsFirst()) pairs[line.slot] = sums;
}

// Writes the gradients of bias and scale, and the means of both sums, which the gradient of x
// loses; one block a channel. The gradients may be null.
template <typename T>
__global__ void batch_norm_means(Compute<T>* grad_means, Compute<T>* normal_means, T* bias_grad,
                                 T* scale_grad, const Pair<Compute<T>>* pairs, Parts parts,
                                 int64_t n, Compute<T> share) {
  using C = Compute<T>;
  const int64_t channel = blockIdx.x;
  Pair<C> sums = PairSumOf<C>::Identity();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    sums = PairSumOf<C>()(sums, pairs[parts.At(channel, i)]);
  }
  sums = BlockReduce(sums, PairSumOf<C>());
  if (threadIdx.x != 0) return;
  if (bias_grad != nullptr) bias_grad[channel] = Store<T>(sums.first);
  if (scale_grad != nullptr) scale_grad[channel] = Store<T>(sums.second);
  grad_means[channel] = sums.first * share;
  normal_means[channel] = sums.second * share;
}
