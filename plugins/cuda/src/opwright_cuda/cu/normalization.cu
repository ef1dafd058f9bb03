// layer_norm, rms_norm, group_norm and cos_sim, and their gradients.
#include "columns.h"
#include "functions.h"

using namespace opwright_cuda;

// Two sums per column: partial sums, or the gradients of bias and scale.
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

// One value per channel, where lines are groups of consecutive channels. If the array is null,
// every value is `otherwise`.
template <typename T>
struct ForChannels {
  const T* values;
  Compute<T> otherwise;
  uint32_t groups;    // groups per item
  uint32_t channels;  // channels per group
  uint32_t inner;     // elements per channel
};
template <int n, typename Line, typename T>
OW_INLINE Vector<Compute<T>, n> ReadBlock(const Line& line, ForChannels<T> x, int64_t i) {
  Vector<Compute<T>, n> block;
  const auto first = static_cast<uint32_t>(i);
  const T* of_group = x.values + line.line % x.groups * x.channels;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    block.at[k] = x.values == nullptr ? x.otherwise : Load(of_group[(first + k) / x.inner]);
  }
  return block;
}

// ---- layer_norm ---------------------------------------------------------------------------------

// Deviations are squared in a second pass, because a difference of squares would cancel. `out` may
// share memory with x. Without kCentered, 0 replaces the mean, and no mean is written.
template <typename Line, typename T, bool kCentered, typename Parameter>
__global__ void __launch_bounds__(kMostLineThreads)
    layer_norm_lines(T* out, T* mean, T* inv_std, const T* x, Parameter scale, Parameter bias,
                     Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(lines.length);
  // The mean is computed from differences to the first element, so it is exact if all are equal.
  const C first = kCentered && line.is_there ? Load(x[line.At(0)]) : C(0);
  C sum = C(0);
  const auto add = [&](int64_t, C& kept, C value) {
    kept = value;
    sum += value - first;
  };
  ForEach(line, add, x);
  C center = C(0);
  if constexpr (kCentered) center = first + line.Reduce(sum, SumOf<C>()) / n;
  const auto deviation = [&](C kept, C again) { return (Line::kKeeps ? kept : again) - center; };
  C squares = C(0);
  const auto add_square = [&](int64_t, C kept, C again) {
    const C change = deviation(kept, again);
    squares += change * change;
  };
  ForEach(line, add_square, Again<T>{x});
  const C variance = line.Reduce(squares, SumOf<C>()) / n;
  C spread = C(1) / functors::Sqrt(variance + epsilon);
  const bool is_extreme = line.is_there && !functors::IsOrdinary(variance + epsilon);
  if (line.IsAny(is_extreme)) {
    functors::SquareSum<C> sum = SquareSumOf<C>::Identity();
    const auto add = [&](int64_t, C kept, C again) { sum.Add(deviation(kept, again)); };
    ForEach(line, add, Again<T>{x});
    sum = line.Reduce(sum, SquareSumOf<C>());
    if (is_extreme) spread = functors::InverseDeviation(sum.Root(), n, epsilon);
  }
  const auto normalize = [&](int64_t, C kept, C again, C factor, C shift) {
    return deviation(kept, again) * spread * factor + shift;
  };
  Transform(line, out, normalize, Again<T>{x}, scale, bias);
  if (!line.IsFirst()) return;
  if constexpr (kCentered) mean[line.line] = Store<T>(center);
  inv_std[line.line] = Store<T>(spread);
}

// Computes x_grad = inv_std * (g - mean(g) - normal * mean(g * normal)) with g = out_grad * scale.
// g is rounded, so if g equals its mean, no rounding error remains that a large inv_std would
// amplify. Without kCentered the mean is 0, and the mean of g is not subtracted.
template <typename Line, typename T, bool kCentered, typename Parameter>
__global__ void __launch_bounds__(kMostLineThreads)
    layer_norm_grad_lines(T* x_grad, const T* x, Parameter scale, const T* mean, const T* inv_std,
                          const T* out_grad, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const C n = static_cast<C>(lines.length);
  const C center = kCentered && line.is_there ? Load(mean[line.line]) : C(0);
  const C spread = line.is_there ? Load(inv_std[line.line]) : C(0);
  const auto pair_of = [&](C value, C grad, C factor) {
    return Pair<C>{RoundedProduct(grad, factor), (value - center) * spread};
  };
  Pair<C> sums = PairSumOf<C>::Identity();
  const auto add = [&](int64_t, Pair<C>& kept, C value, C grad, C factor) {
    kept = pair_of(value, grad, factor);
    sums = PairSumOf<C>()(sums, {kept.first, kept.first * kept.second});
  };
  ForEach(line, add, x, out_grad, scale);
  sums = line.Reduce(sums, PairSumOf<C>());
  const auto apply = [&](int64_t, Pair<C> kept, C value, C grad, C factor) {
    const Pair<C> pair = Line::kKeeps ? kept : pair_of(value, grad, factor);
    const C along = kCentered ? sums.first / n : C(0);
    const C common = pair.second * (sums.second / n) + along;
    return (pair.first - common) * spread;
  };
  Transform(line, x_grad, apply, Again<T>{x}, Again<T>{out_grad}, scale);
}

// Sums out_grad and out_grad * normal over rows.
template <typename Team, typename T, bool kCentered>
__global__ void __launch_bounds__(kTileThreads)
    layer_norm_sum_columns(PairTarget<T> target, const T* x, const T* mean, const T* inv_std,
                           const T* out_grad, Lines lines, int32_t width) {
  using C = Compute<T>;
  constexpr int n = Team::kColumns;
  const Team team(lines, width);
  Pair<C> sums[n];
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = PairSumOf<C>::Identity();
  team.template EachRow<2>([&](auto many, int64_t row, int64_t place) {
    constexpr int kMany = decltype(many)::value;
    Vector<T, n> values[kMany];
    Vector<T, n> grads[kMany];
    team.Read(values, x, place);
    team.Read(grads, out_grad, place);
#pragma unroll
    for (int r = 0; r < kMany; ++r) {
      const C center = kCentered ? Load(mean[row + r * team.size]) : C(0);
      const C spread = Load(inv_std[row + r * team.size]);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C grad = Load(grads[r].at[k]);
        const C normal = (Load(values[r].at[k]) - center) * spread;
        sums[k] = PairSumOf<C>()(sums[k], {grad, grad * normal});
      }
    }
  });
  team.Reduce(sums, PairSumOf<C>());
  if (!team.IsFirst()) return;
#pragma unroll
  for (int k = 0; k < n; ++k) target.Write(team.slot + k, sums[k]);
}

// Computes the same sums over the elements of one channel of one item, which form a line. The
// channels of a group share statistics.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    group_norm_sum_lines(Pair<Compute<T>>* pairs, const T* x, const T* mean, const T* inv_std,
                         const T* out_grad, int64_t channels, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t row = line.line / channels;
  const C center = line.is_there ? Load(mean[row]) : C(0);
  const C spread = line.is_there ? Load(inv_std[row]) : C(0);
  Pair<C> sums = PairSumOf<C>::Identity();
  const auto add = [&](int64_t, C&, C value, C grad) {
    sums = PairSumOf<C>()(sums, {grad, grad * ((value - center) * spread)});
  };
  ForEach(line, add, x, out_grad);
  sums = line.Reduce(sums, PairSumOf<C>());
  if (line.IsFirst()) pairs[line.line] = sums;
}

// Accumulates the sums over all parts of the rows.
template <typename T>
__global__ void __launch_bounds__(kTileThreads)
    sum_pair_columns(PairTarget<T> target, const Pair<Compute<T>>* pairs, Lines lines,
                     int32_t width) {
  using C = Compute<T>;
  const ColumnTeam<1> team(lines, width);
  Pair<C> sums[1] = {PairSumOf<C>::Identity()};
  team.EachRow<kRowsAtOnce>([&](auto many, int64_t, int64_t place) {
    Vector<Pair<C>, 1> rows[decltype(many)::value];
    team.Read(rows, pairs, place);
    for (const auto& row : rows) sums[0] = PairSumOf<C>()(sums[0], row.at[0]);
  });
  team.Reduce(sums, PairSumOf<C>());
  if (team.IsFirst()) target.Write(team.slot, sums[0]);
}

// ---- cos_sim ------------------------------------------------------------------------------------

template <typename C>
OW_INLINE C NormOf(const functors::SquareSum<C>& squares, C epsilon) {
  return functors::Maximum(squares.Root(), epsilon);
}

template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    norm_lines(T* norm, const T* x, Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  functors::SquareSum<C> squares = SquareSumOf<C>::Identity();
  ForEach(line, [&](int64_t, C&, C value) { squares.Add(value); }, x);
  squares = line.Reduce(squares, SquareSumOf<C>());
  if (line.IsFirst()) norm[line.line] = Store<T>(NormOf(squares, epsilon));
}

// Processes independent lines. Each factor is divided by its own norm, because the product of the
// norms might underflow.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    cos_sim_lines(T* out, T* x_norm, T* y_norm, const T* x, const T* y, Compute<T> scale,
                  Compute<T> epsilon, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  functors::SquareSum<C> x_squares = SquareSumOf<C>::Identity();
  functors::SquareSum<C> y_squares = x_squares;
  const auto add_squares = [&](int64_t, Pair<C>& kept, C first, C second) {
    kept = {first, second};
    x_squares.Add(first);
    y_squares.Add(second);
  };
  ForEach(line, add_squares, x, y);
  x_squares = line.Reduce(x_squares, SquareSumOf<C>());
  y_squares = line.Reduce(y_squares, SquareSumOf<C>());
  const T x_rounded = Store<T>(NormOf(x_squares, epsilon));
  const T y_rounded = Store<T>(NormOf(y_squares, epsilon));
  C cosine = C(0);
  const auto add_term = [&](int64_t, Pair<C> kept, C first, C second) {
    const Pair<C> pair = Line::kKeeps ? kept : Pair<C>{first, second};
    cosine += (pair.first / Load(x_rounded)) * (pair.second / Load(y_rounded));
  };
  ForEach(line, add_term, Again<T>{x}, Again<T>{y});
  cosine = line.Reduce(cosine, SumOf<C>());
  if (!line.IsFirst()) return;
  out[line.line] = Store<T>(cosine * scale);
  x_norm[line.line] = x_rounded;
  y_norm[line.line] = y_rounded;
}
