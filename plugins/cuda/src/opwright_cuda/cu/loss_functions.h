// Functors for element-wise losses of a score x and its label, and for their derivatives times the
// loss gradient. For a pair of scores, x is their difference.
#ifndef OPWRIGHT_CUDA_LOSS_FUNCTIONS_H_
#define OPWRIGHT_CUDA_LOSS_FUNCTIONS_H_

#include "functions.h"

namespace opwright_cuda {

template <typename T>
OW_INLINE T Bounded(T x, T bound) {
  const T above = x < -bound ? -bound : x;
  return above > bound ? bound : above;
}

// Each formula has Loss, GradX and GradLabel.
template <typename T>
struct L1Loss {
  OW_INLINE T Loss(T x, T label) const { return fabs(x - label); }
  OW_INLINE T GradX(T x, T label, T grad) const { return functors::AbsGrad(x - label, grad); }
  OW_INLINE T GradLabel(T x, T label, T grad) const { return -GradX(x, label, grad); }
};

// The loss is d**2 / 2 for |d| up to delta, otherwise delta * (|d| - delta / 2), so large numbers
// are not squared.
template <typename T>
struct HuberLoss {
  T delta;
  OW_INLINE T Loss(T x, T label) const {
    const T size = fabs(x - label);
    const T inner = size > delta ? delta : size;
    return inner * (size - inner / T(2));
  }
  OW_INLINE T GradX(T x, T label, T grad) const { return Bounded(x - label, delta) * grad; }
  OW_INLINE T GradLabel(T x, T label, T grad) const { return -GradX(x, label, grad); }
};

// If beta is 0, the loss is l1.
template <typename T>
struct SmoothL1Loss {
  T beta;
  OW_INLINE T Loss(T x, T label) const {
    return beta > T(0) ? HuberLoss<T>{beta}.Loss(x, label) / beta : fabs(x - label);
  }
  OW_INLINE T GradX(T x, T label, T grad) const {
    if (beta > T(0)) return Bounded(x - label, beta) / beta * grad;
    return functors::AbsGrad(x - label, grad);
  }
  OW_INLINE T GradLabel(T x, T label, T grad) const { return -GradX(x, label, grad); }
};

template <typename T>
struct HingeLoss {
  T margin;
  OW_INLINE T Loss(T x, T label) const { return functors::Relu(margin - x * label); }
  OW_INLINE T GradX(T x, T label, T grad) const {
    return margin - x * label < T(0) ? T(0) : -label * grad;
  }
  OW_INLINE T GradLabel(T x, T label, T grad) const {
    return margin - x * label < T(0) ? T(0) : -x * grad;
  }
};

template <typename T>
struct LogLoss {
  T epsilon;
  OW_INLINE T Loss(T x, T label) const {
    const T no = (T(1) - label) * functors::Log(T(1) - x + epsilon);
    return -label * functors::Log(x + epsilon) - no;
  }
  OW_INLINE T GradX(T x, T label, T grad) const {
    return ((T(1) - label) / (T(1) - x + epsilon) - label / (x + epsilon)) * grad;
  }
  OW_INLINE T GradLabel(T x, T, T grad) const {
    return (functors::Log(T(1) - x + epsilon) - functors::Log(x + epsilon)) * grad;
  }
};

// The loss is 0 if the label probability is 0.
template <typename T, bool is_log>
struct KlLoss {
  static OW_INLINE T WeightOf(T label) { return is_log ? functors::Exp(label) : label; }
  OW_INLINE T Loss(T x, T label) const {
    const T weight = WeightOf(label);
    const T log = is_log ? label : functors::Log(label);
    return weight == T(0) ? T(0) : weight * (log - x);
  }
  OW_INLINE T GradX(T, T label, T grad) const { return -WeightOf(label) * grad; }
  OW_INLINE T GradLabel(T x, T label, T grad) const {
    if constexpr (!is_log) return (functors::Log(label) - x + T(1)) * grad;
    const T weight = WeightOf(label);
    return weight == T(0) ? T(0) : weight * (label - x + T(1)) * grad;
  }
};
template <typename T>
using KlOfNumbers = KlLoss<T, false>;
template <typename T>
using KlOfLogs = KlLoss<T, true>;

template <typename T>
struct PairLoss {
  OW_INLINE T Loss(T x, T label) const { return SigmoidLoss<T>()(x, label); }
  OW_INLINE T GradX(T x, T label, T grad) const { return SigmoidLossGrad<T>()(x, label, grad); }
  OW_INLINE T GradLabel(T x, T, T grad) const { return SigmoidLossLabelGrad<T>()(x, grad); }
};

template <template <typename> class Formula, typename T>
struct LossOf {
  Formula<T> formula;
  OW_INLINE T operator()(T x, T label) const { return formula.Loss(x, label); }
  OW_INLINE T operator()(T x, T y, T label) const { return formula.Loss(x - y, label); }
};
template <template <typename> class Formula, typename T>
struct GradOfX {
  Formula<T> formula;
  OW_INLINE T operator()(T x, T label, T grad) const { return formula.GradX(x, label, grad); }
  OW_INLINE T operator()(T x, T y, T label, T grad) const {
    return formula.GradX(x - y, label, grad);
  }
};
template <template <typename> class Formula, typename T>
struct GradOfY {
  Formula<T> formula;
  OW_INLINE T operator()(T x, T y, T label, T grad) const {
    return -formula.GradX(x - y, label, grad);
  }
};
template <template <typename> class Formula, typename T>
struct GradOfLabel {
  Formula<T> formula;
  OW_INLINE T operator()(T x, T label, T grad) const { return formula.GradLabel(x, label, grad); }
  OW_INLINE T operator()(T x, T y, T label, T grad) const {
    return formula.GradLabel(x - y, label, grad);
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LOSS_FUNCTIONS_H_
