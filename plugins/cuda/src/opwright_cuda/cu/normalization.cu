// layer_norm, batch_norm, their gradients, and cosines of angles.
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

// Two sums of each column, as they are or, at the end, as the gradients of bias and scale.
template <typename T>
struct PairTarget {
  Pair<Compute<T>>* pairs;
  T* first;
  T* second;

  OW_INLINE void Write(int64_t i, Pair<Compute<T>> sums) const {
    if (pairs != nullptr) pairs[i] = sums;
    if (first != nullptr) first[i] = Store<T>(sums.first);
    if (second != nullptr) second[i] = Store<T>(sums.second);
  }
};

// ---- layer_norm ---------------------------------------------------------------------------------

// Deviations are squared in a second pass: the difference of squares would cancel. `scale` and
// `bias` may be null, `out` may lie on x.
template <typename Line, typename T>
__global__ void __launch_bounds__(512)
    layer_norm_lines(T* out, T* mean, T* inv_std, const T* x, const T* scale, const T* bias,
                     Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(lines.length);
  C sum = C(0);
  line.ForEach([&](int64_t i, C& kept) {
    kept = Load(x[line.At(i)]);
    sum += kept;
  });
  const C center = line.Reduce(sum, SumOf<C>()) / n;
  const auto deviation = [&](int64_t i, C kept) {
    return (Line::kKeeps ? kept : Load(x[line.At(i)])) - center;
  };
  C squares = C(0);
  line.ForEach([&](int64_t i, C& kept) {
    const C change = deviation(i, kept);
    squares += change * change;
  });
  const C variance = line.Reduce(squares, SumOf<C>()) / n;
  const C spread = C(1) / functors::Sqrt(variance + epsilon);
  line.ForEach([&](int64_t i, C& kept) {
    C normal = deviation(i, kept) * spread;
    if (scale != nullptr) normal *= Load(scale[i]);
    if (bias != nullptr) normal += Load(bias[i]);
    out[line.At(i)] = Store<T>(normal);
  });
  if (!line.IsFirst()) return;
  mean[line.line] = Store<T>(center);
  inv_std[line.line] = Store<T>(spread);
}

// x_grad = inv_std * (g - mean(g) - normal * mean(g * normal)), g being out_grad * scale.
template <typename Line, typename T>
__global__ void layer_norm_grad_lines(T* x_grad, const T* x, const T* scale, const T* mean,
                                      const T* inv_std, const T* out_grad, Lines lines,
                                      int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(lines.length);
  const C center = line.is_there ? Load(mean[line.line]) : C(0);
  const C spread = line.is_there ? Load(inv_std[line.line]) : C(0);
  const auto read = [&](int64_t i) {
    const C grad = Load(out_grad[line.At(i)]);
    const C normal = (Load(x[line.At(i)]) - center) * spread;
    return Pair<C>{scale == nullptr ? grad : grad * Load(scale[i]), normal};
  };
  Pair<C> sums = PairSumOf<C>::Identity();
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    kept = read(i);
    sums = PairSumOf<C>()(sums, {kept.first, kept.first * kept.second});
  });
  sums = line.Reduce(sums, PairSumOf<C>());
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    const Pair<C> pair = Line::kKeeps ? kept : read(i);
    const C common = pair.second * (sums.second / n) + sums.first / n;
    x_grad[line.At(i)] = Store<T>((pair.first - common) * spread);
  });
}

// Sums of out_grad and of out_grad * normal over rows; lines are columns.
template <typename Team, typename T>
__global__ void layer_norm_column_sums(PairTarget<T> target, const T* x, const T* mean,
                                       const T* inv_std, const T* out_grad, Lines lines,
                                       int32_t width) {
  using C = Compute<T>;
  Team team(lines, width);
  Pair<C> sums = PairSumOf<C>::Identity();
  team.ForEach([&](int64_t row, C&) {
    const C grad = Load(out_grad[team.At(row)]);
    const C normal = (Load(x[team.At(row)]) - Load(mean[row])) * Load(inv_std[row]);
    sums = PairSumOf<C>()(sums, {grad, grad * normal});
  });
  sums = team.Reduce(sums, PairSumOf<C>());
  if (team.IsFirst()) target.Write(team.slot, sums);
}

template <typename Team, typename T>
__global__ void sum_pairs(PairTarget<T> target, const Pair<Compute<T>>* pairs, Lines lines,
                          int32_t width) {
  using C = Compute<T>;
  Team team(lines, width);
  Pair<C> sums = PairSumOf<C>::Identity();
  team.ForEach([&](int64_t i, C&) { sums = PairSumOf<C>()(sums, pairs[team.At(i)]); });
  sums = team.Reduce(sums, PairSumOf<C>());
  if (team.IsFirst()) target.Write(team.slot, sums);
}

// ---- batch_norm ---------------------------------------------------------------------------------

// Of every part of a line: from the deviations from its own mean.
template <typename Line, typename T>
__global__ void moments_lines(Moments<Compute<T>>* moments, const T* x, Lines lines,
                              int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(line.end - line.begin);
  C sum = C(0);
  line.ForEach([&](int64_t i, C& kept) {
    kept = Load(x[line.At(i)]);
    sum += kept;
  });
  const C center = line.Reduce(sum, SumOf<C>()) / n;
  C squares = C(0);
  line.ForEach([&](int64_t i, C& kept) {
    const C change = (Line::kKeeps ? kept : Load(x[line.At(i)])) - center;
    squares += change * change;
  });
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

// Sums of out_grad and of out_grad * normal; a line is of channel line % n_channels.
template <typename Team, typename T>
__global__ void batch_norm_sums(Pair<Compute<T>>* pairs, const T* x, const T* mean,
                                const T* inv_std, const T* out_grad, int64_t n_channels,
                                Lines lines, int32_t width) {
  using C = Compute<T>;
  Team team(lines, width);
  const int64_t channel = team.is_there ? team.line % n_channels : 0;
  const C center = Load(mean[channel]);
  const C spread = Load(inv_std[channel]);
  Pair<C> sums = PairSumOf<C>::Identity();
  team.ForEach([&](int64_t i, C&) {
    const C grad = Load(out_grad[team.At(i)]);
    const C normal = (Load(x[team.At(i)]) - center) * spread;
    sums = PairSumOf<C>()(sums, {grad, grad * normal});
  });
  sums = team.Reduce(sums, PairSumOf<C>());
  if (team.IsFirst()) pairs[team.slot] = sums;
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
  PairTarget<T>{nullptr, bias_grad, scale_grad}.Write(channel, sums);
  grad_means[channel] = sums.first * share;
  normal_means[channel] = sums.second * share;
}

// ---- cos_sim ------------------------------------------------------------------------------------

template <typename C>
OW_INLINE C NormOf(C squares, C epsilon) {
  return functors::Maximum(functors::Sqrt(squares), epsilon);
}

template <typename Line, typename T>
__global__ void norm_lines(T* norm, const T* x, Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  C squares = C(0);
  line.ForEach([&](int64_t i, C&) {
    const C value = Load(x[line.At(i)]);
    squares += value * value;
  });
  squares = line.Reduce(squares, SumOf<C>());
  if (line.IsFirst()) norm[line.line] = Store<T>(NormOf(squares, epsilon));
}

// Of lines that share nothing. Each factor is divided by its own norm: the product of the norms
// might underflow.
template <typename Line, typename T>
__global__ void cos_sim_lines(T* out, T* x_norm, T* y_norm, const T* x, const T* y,
                              Compute<T> scale, Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  Pair<C> squares = PairSumOf<C>::Identity();
  const auto read = [&](int64_t i) { return Pair<C>{Load(x[line.At(i)]), Load(y[line.At(i)])}; };
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    kept = read(i);
    squares = PairSumOf<C>()(squares, {kept.first * kept.first, kept.second * kept.second});
  });
  squares = line.Reduce(squares, PairSumOf<C>());
  const T x_rounded = Store<T>(NormOf(squares.first, epsilon));
  const T y_rounded = Store<T>(NormOf(squares.second, epsilon));
  C cosine = C(0);
  line.ForEach([&](int64_t i, Pair<C>& kept) {
    const Pair<C> pair = Line::kKeeps ? kept : read(i);
    cosine += (pair.first / Load(x_rounded)) * (pair.second / Load(y_rounded));
  });
  cosine = line.Reduce(cosine, SumOf<C>());
  if (!line.IsFirst()) return;
  out[line.line] = Store<T>(cosine * scale);
  x_norm[line.line] = x_rounded;
  y_norm[line.line] = y_rounded;
}
