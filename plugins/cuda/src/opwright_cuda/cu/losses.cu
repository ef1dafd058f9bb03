// Cross-entropy losses for class ids and for class distributions, and accuracy.
#include "labels.h"
#include "softmax.h"

using namespace opwright_cuda;

// ---- softmax_with_cross_entropy -----------------------------------------------------------------

// The class id of a line (-1 if the line is ignored), the score of that class, and the
// exponentials of all scores.
template <typename C>
struct Scores {
  int64_t id;
  C of_class;
  Powers<C> powers;

  OW_INLINE C Loss() const {
    return id < 0 ? C(0) : functors::Log(powers.total) - (of_class - powers.top);
  }
};

// Reads each element of a line once, and the label of the line at the same time. Outputs may share
// memory with x, because they are written later.
template <Left left, typename Line, typename T>
OW_INLINE Scores<Compute<T>> ReadScores(Line& line, const T* x, const Labels& labels) {
  const int64_t stored = line.is_there ? labels.Read(line.line) : 0;
  Scores<Compute<T>> scores{-1, Compute<T>(0), {}};
  scores.powers = ReadPowers<left>(line, x, [&] {
    if (line.is_there) scores.id = labels.IdOf(stored);
    if (scores.id >= 0) scores.of_class = Load(x[line.At(scores.id)]);
  });
  return scores;
}

// Computes the loss and the softmax of each line. `softmax` may share memory with x.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    class_loss_lines(T* out, T* softmax, const T* x, Labels labels, Lines lines, int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Scores<C> scores = ReadScores<kPowers>(line, x, labels);
  const C share = C(1) / scores.powers.total;
  if (line.IsFirst()) out[line.line] = Store<T>(scores.Loss());
  const auto apply = [&](int64_t, C kept, C again) {
    return PowerOf<Line>(kept, again, scores.powers.top) * share;
  };
  Transform(line, softmax, apply, Again<T>{x});
}

// Computes the loss of each line without storing the softmax.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    class_loss_alone_lines(T* out, const T* x, Labels labels, Lines lines, int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Scores<C> scores = ReadScores<kNothing>(line, x, labels);
  if (line.IsFirst()) out[line.line] = Store<T>(scores.Loss());
}

template <typename Line, typename T>
__global__ void soft_loss_lines(T* out, T* softmax, const T* x, const T* label, Lines lines,
                                int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Powers<C> powers = ReadPowers<kShifted>(line, x);
  const C share = C(1) / powers.total;
  const C log_total = functors::Log(powers.total);
  C loss = C(0);
  const auto apply = [&](int64_t, C kept, C again, C weight) {
    const C shifted = ShiftedOf<Line>(kept, again, powers.top);
    if (weight != C(0)) loss -= weight * (shifted - log_total);  // 0 * -inf is 0 here
    return functors::Exp(shifted) * share;
  };
  Transform(line, softmax, apply, Again<T>{x}, label);
  loss = line.Reduce(loss, SumOf<C>());
  if (line.IsFirst()) out[line.line] = Store<T>(loss);
}

template <typename Line, typename T>
__global__ void class_loss_grad_lines(T* x_grad, const T* softmax, Labels labels, const T* out_grad,
                                      Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  if (!line.is_there) return;
  const int64_t id = labels.At(line.line);
  const C grad = Load(out_grad[line.line]);
  const auto apply = [&](int64_t i, C&, C probability) {
    return id < 0 ? C(0) : probability * grad - (i == id ? grad : C(0));
  };
  Transform(line, x_grad, apply, softmax);
}

// Computes loss and gradient in one pass, for losses that all have the same gradient `loss_grad`.
// `softmax` and `out` may be null, and `x_grad` may share memory with x. If the probability of the
// labeled class is below epsilon, it is raised to epsilon, and the gradient of the line is 0.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    class_loss_and_grad_lines(T* x_grad, T* out, T* softmax, const T* x, Labels labels,
                              Compute<T> loss_grad, Compute<T> epsilon, Lines lines,
                              int32_t width) {
  using C = Compute<T>;
  PowerLine<Line> line(lines, width);
  const Scores<C> scores = ReadScores<kPowers>(line, x, labels);
  const Powers<C> powers = scores.powers;
  const int64_t id = scores.id;
  const C share = C(1) / powers.total;
  const C probability_of_class = functors::Exp(scores.of_class - powers.top) / powers.total;
  const bool underflows = epsilon > C(0) && id >= 0 && probability_of_class < epsilon;
  const C factor = id < 0 || underflows ? C(0) : loss_grad;
  if (line.IsFirst() && out != nullptr) {
    out[line.line] = Store<T>(underflows ? -functors::Log(epsilon) : scores.Loss());
  }
  const auto apply = [&](int64_t i, C kept, C again) {
    const C probability = PowerOf<Line>(kept, again, powers.top) * share;
    const C grad = probability * factor - (i == id ? factor : C(0));
    return Pair<C>{factor == C(0) ? C(0) : grad, probability};  // since 0 * NaN is NaN
  };
  TransformBoth(line, x_grad, softmax, apply, Again<T>{x});
}

// ---- cross_entropy ------------------------------------------------------------------------------

// Computes losses for class ids; the classes are along the last axis.
template <typename T>
__global__ void cross_entropy_ids(T* out, const T* x, Labels labels, int64_t n,
                                  Compute<T> epsilon) {
  using C = Compute<T>;
  for (int64_t row = GlobalIndex(); row < n; row += GridThreads()) {
    const int64_t id = labels.At(row);
    const C score = id < 0 ? C(1) : Load(x[row * labels.n_classes + id]);
    out[row] = Store<T>(-functors::Log(functors::Maximum(score, epsilon)));
  }
}

template <typename Line, typename T>
__global__ void cross_entropy_soft_lines(T* out, const T* x, const T* label, Compute<T> epsilon,
                                         Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  C total = C(0);
  const auto add = [&](int64_t, C&, C score, C weight) {
    total += functors::Log(functors::Maximum(score, epsilon)) * weight;
  };
  ForEach(line, add, x, label);
  total = line.Reduce(total, SumOf<C>());
  if (line.IsFirst()) out[line.line] = Store<T>(-total);
}

template <typename C>
OW_INLINE C GradOf(C x, C weight, C out_grad, C epsilon) {
  return x < epsilon ? C(0) : -(weight / functors::Maximum(x, epsilon)) * out_grad;
}

template <typename Line, typename T>
__global__ void cross_entropy_ids_grad_lines(T* x_grad, const T* x, Labels labels,
                                             const T* out_grad, Compute<T> epsilon, Lines lines,
                                             int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  if (!line.is_there) return;
  const int64_t id = labels.At(line.line);
  const C grad = Load(out_grad[line.line]);
  const C grad_at_label = id < 0 ? C(0) : GradOf(Load(x[line.At(id)]), C(1), grad, epsilon);
  Transform(line, x_grad, [&](int64_t i, C&) { return i == id ? grad_at_label : C(0); });
}

// Computes both gradients; either output may be null.
template <typename Line, typename T>
__global__ void cross_entropy_soft_grad_lines(T* x_grad, T* label_grad, const T* x, const T* label,
                                              const T* out_grad, Compute<T> epsilon, Lines lines,
                                              int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  if (!line.is_there) return;
  const C grad = Load(out_grad[line.line]);
  const auto apply = [&](int64_t, C&, C score, C weight) {
    const C power = functors::Log(functors::Maximum(score, epsilon));
    return Pair<C>{GradOf(score, weight, grad, epsilon), -(power * grad)};
  };
  TransformBoth(line, x_grad, label_grad, apply, x, label);
}

// ---- accuracy -----------------------------------------------------------------------------------

// Writes for each line whether fewer than k classes rank before its label. Classes with a higher
// score, and classes with an equal score and a lower index, rank before the label. NaN ranks before
// every number, and a label whose score is NaN is never right.
template <typename Line, typename T>
__global__ void is_right_lines(bool* is_right, const T* x, Labels labels, int64_t k, Lines lines,
                               int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t id = line.is_there ? labels.At(line.line) : -1;
  const C score = id < 0 ? C(0) : Load(x[line.At(id)]);
  int64_t before = 0;
  const auto count = [&](int64_t i, C&, C other) {
    before += i < id ? !(other < score) : i > id && !(other <= score);
  };
  ForEach(line, count, x);
  before = line.Reduce(before, SumOf<int64_t>());
  if (line.IsFirst()) is_right[line.line] = id >= 0 && score == score && before < k;
}

// Counts the correct predictions in a single block.
template <typename T>
__global__ void count_right(T* accuracy, int64_t* correct, int64_t* total, const bool* is_right,
                            int64_t n) {
  int64_t count = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) count += is_right[i];
  count = BlockReduce(count, SumOf<int64_t>());
  if (threadIdx.x != 0) return;
  *accuracy = n > 0 ? static_cast<T>(static_cast<double>(count) / static_cast<double>(n)) : T(0);
  *correct = count;
  *total = n;
}
