// Losses of class ids and distributions, and accuracy.
#include "softmax.h"

using namespace opwright_cuda;

// Class ids of int32 or int64. One that is out of range is reported and counts as ignored.
struct Labels {
  const void* ids;
  Fault* fault;
  int64_t n_classes;
  int64_t ignored;
  int32_t is_wide;
  int32_t can_ignore;
  int32_t text;

  // The class of a line, -1 where it is to be ignored.
  OW_INLINE int64_t At(int64_t line) const {
    const int64_t id =
        is_wide ? static_cast<const int64_t*>(ids)[line] : static_cast<const int32_t*>(ids)[line];
    if (can_ignore && id == ignored) return -1;
    if (id >= 0 && id < n_classes) return id;
    Report(fault, text, id);
    return -1;
  }
};

// ---- softmax_with_cross_entropy -----------------------------------------------------------------

// `softmax` may be null, or lie on x.
template <typename Line, typename T>
__global__ void class_loss_lines(T* out, T* softmax, const T* x, Labels labels, Lines lines,
                                 int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t id = line.is_there ? labels.At(line.line) : -1;
  const Powers<C> powers = ReadPowers<true>(line, x);
  const C share = C(1) / powers.total;
  if (line.IsFirst() && id < 0) out[line.line] = Store<T>(C(0));
  line.ForEach([&](int64_t i, C& kept) {
    if (i == id) {  // whoever has the element of the class
      const C shifted = Load(x[line.At(i)]) - powers.top;
      out[line.line] = Store<T>(functors::Log(powers.total) - shifted);
    }
    if (softmax != nullptr) {
      softmax[line.At(i)] = Store<T>(PowerAt(line, x, i, kept, powers.top) * share);
    }
  });
}

template <typename Line, typename T>
__global__ void soft_loss_lines(T* out, T* softmax, const T* x, const T* label, Lines lines,
                                int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const Powers<C> powers = ReadPowers<false>(line, x);
  const C share = C(1) / powers.total;
  const C log_total = functors::Log(powers.total);
  C loss = C(0);
  line.ForEach([&](int64_t i, C& kept) {
    const C shifted = ShiftedAt(line, x, i, kept, powers.top);
    const C weight = Load(label[line.At(i)]);
    if (weight != C(0)) loss -= weight * (shifted - log_total);  // 0 * -inf is 0 here
    if (softmax != nullptr) softmax[line.At(i)] = Store<T>(functors::Exp(shifted) * share);
  });
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
  const C slope = Load(out_grad[line.line]);
  line.ForEach([&](int64_t i, C&) {
    const C grad = Load(softmax[line.At(i)]) * slope - (i == id ? slope : C(0));
    x_grad[line.At(i)] = Store<T>(id < 0 ? C(0) : grad);
  });
}

// Both at once where every loss has the gradient `slope`: one sweep. `softmax` and `out` may be
// null, `x_grad` may lie on x. A probability below epsilon counts as epsilon.
template <typename Line, typename T>
__global__ void class_loss_and_grad_lines(T* x_grad, T* out, T* softmax, const T* x, Labels labels,
                                          Compute<T> slope, Compute<T> epsilon, Lines lines,
                                          int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t id = line.is_there ? labels.At(line.line) : -1;
  const C of_class = id < 0 ? C(0) : Load(x[line.At(id)]);  // nobody has written there so far
  const Powers<C> powers = ReadPowers<true>(line, x);
  const C share = C(1) / powers.total;
  const C shifted = of_class - powers.top;
  const bool underflows = epsilon > C(0) && functors::Exp(shifted) / powers.total < epsilon;
  const C factor = id < 0 || underflows ? C(0) : slope;
  if (line.IsFirst() && out != nullptr) {
    const C loss = underflows ? -functors::Log(epsilon) : functors::Log(powers.total) - shifted;
    out[line.line] = Store<T>(id < 0 ? C(0) : loss);
  }
  line.ForEach([&](int64_t i, C& kept) {
    const C probability = PowerAt(line, x, i, kept, powers.top) * share;
    if (softmax != nullptr) softmax[line.At(i)] = Store<T>(probability);
    const C grad = probability * factor - (i == id ? factor : C(0));
    x_grad[line.At(i)] = Store<T>(factor == C(0) ? C(0) : grad);  // 0 * NaN would not do
  });
}

// ---- cross_entropy ------------------------------------------------------------------------------

// Where classes are the last axis.
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
  line.ForEach([&](int64_t i, C&) {
    const C score = functors::Maximum(Load(x[line.At(i)]), epsilon);
    total += functors::Log(score) * Load(label[line.At(i)]);
  });
  total = line.Reduce(total, SumOf<C>());
  if (line.IsFirst()) out[line.line] = Store<T>(-total);
}

template <typename C>
OW_INLINE C SlopeOf(C x, C weight, C out_grad, C epsilon) {
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
  line.ForEach([&](int64_t i, C&) {
    C grad = C(0);
    if (i == id) grad = SlopeOf(Load(x[line.At(i)]), C(1), Load(out_grad[line.line]), epsilon);
    x_grad[line.At(i)] = Store<T>(grad);
  });
}

// Either gradient may be null.
template <typename Line, typename T>
__global__ void cross_entropy_soft_grad_lines(T* x_grad, T* label_grad, const T* x, const T* label,
                                              const T* out_grad, Compute<T> epsilon, Lines lines,
                                              int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  if (!line.is_there) return;
  const C slope = Load(out_grad[line.line]);
  line.ForEach([&](int64_t i, C&) {
    const C score = Load(x[line.At(i)]);
    if (x_grad != nullptr) {
      x_grad[line.At(i)] = Store<T>(SlopeOf(score, Load(label[line.At(i)]), slope, epsilon));
    }
    if (label_grad != nullptr) {
      const C power = functors::Log(functors::Maximum(score, epsilon));
      label_grad[line.At(i)] = Store<T>(-(power * slope));
    }
  });
}

// ---- accuracy -----------------------------------------------------------------------------------

// Whether fewer than k classes rank before the label: better ones, and equal ones that come
// earlier. NaN ranks before every number.
template <typename Line, typename T>
__global__ void is_right_lines(bool* is_right, const T* x, Labels labels, int64_t k, Lines lines,
                               int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t id = line.is_there ? labels.At(line.line) : -1;
  const C score = id < 0 ? C(0) : Load(x[line.At(id)]);
  int64_t before = 0;
  line.ForEach([&](int64_t i, C&) {
    const C other = Load(x[line.At(i)]);
    if (score != score) {
      before += i < id && other != other;
    } else {
      before += i < id ? !(other < score) : i > id && !(other <= score);
    }
  });
  before = line.Reduce(before, SumOf<int64_t>());
  if (line.IsFirst()) is_right[line.line] = id >= 0 && before < k;
}

// One block.
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
