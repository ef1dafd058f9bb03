// Loss formulas: the loss of a score and its label, and the derivatives with respect to both. In a
// flat region, the derivative 0 is selected rather than multiplied by the gradient, which may be
// infinite.
#ifndef OPWRIGHT_CPU_LOSSES_LOSS_FORMULAS_H_
#define OPWRIGHT_CPU_LOSSES_LOSS_FORMULAS_H_

#include <opwright/functors.h>

#include <cmath>

#include "common/clones.h"
#include "losses/attributes.h"

namespace opwright_cpu {

namespace functors = opwright::functors;

// kCost is the time per element relative to mse.
template <typename T>
struct Mse {
  using Attrs = opwright::NoAttrs;
  static constexpr int64_t kCost = 1;
  static Mse Of(const Attrs&) { return {}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const { return (x - label) * (x - label); }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const { return (x - label) * grad * T(2); }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    return (x - label) * grad * T(-2);
  }
};

template <typename T>
struct SigmoidLoss {
  using Attrs = opwright::NoAttrs;
  static constexpr int64_t kCost = 3;
  static SigmoidLoss Of(const Attrs&) { return {}; }
  // Computes max(x, 0) - x * label + ln(1 + exp(-|x|)), which does not overflow and preserves small
  // values. For an infinite x and a label of 0 or 1, the result is 0 or infinite, not NaN.
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const {
    const T negative = x < T(0) ? x : -x;
    const T share = x < T(0) ? -label : T(1) - label;
    return functors::Log1p(functors::Exp(negative)) + (share == T(0) ? T(0) : x * share);
  }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    return (functors::Sigmoid(x) - label) * grad;
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T, T grad) const { return -(x * grad); }
};

template <typename T>
struct L1 {
  using Attrs = opwright::NoAttrs;
  static constexpr int64_t kCost = 1;
  static L1 Of(const Attrs&) { return {}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const { return std::abs(x - label); }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    return functors::AbsGrad(x - label, grad);
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    return -GradientX(x, label, grad);
  }
};

// Computes d**2 / 2 for |d| up to delta, otherwise delta * (|d| - delta / 2), so large numbers are
// not squared.
template <typename T>
OPWRIGHT_CPU_INLINE T HuberOf(T difference, T delta) {
  const T size = std::abs(difference);
  const T inner = size > delta ? delta : size;
  return inner * (size - inner / T(2));
}

template <typename T>
OPWRIGHT_CPU_INLINE T Bounded(T x, T bound) {
  const T above = x < -bound ? -bound : x;
  return above > bound ? bound : above;
}

template <typename T>
struct Huber {
  using Attrs = HuberAttrs;
  static constexpr int64_t kCost = 1;
  T delta;
  static Huber Of(const Attrs& attrs) { return {static_cast<T>(attrs.delta)}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const { return HuberOf(x - label, delta); }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    return Bounded(x - label, delta) * grad;
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    return -GradientX(x, label, grad);
  }
};

// If beta is 0, the loss is l1.
template <typename T>
struct SmoothL1 {
  using Attrs = SmoothL1Attrs;
  static constexpr int64_t kCost = 1;
  T beta;
  bool is_round;
  static SmoothL1 Of(const Attrs& attrs) { return {static_cast<T>(attrs.beta), attrs.beta > 0}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const {
    return is_round ? HuberOf(x - label, beta) / beta : std::abs(x - label);
  }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    const T smooth = Bounded(x - label, beta) / beta * grad;
    return is_round ? smooth : functors::AbsGrad(x - label, grad);
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    return -GradientX(x, label, grad);
  }
};

// This formula is also used for the difference between two scores, with a margin.
template <typename T>
struct Hinge {
  using Attrs = HingeAttrs;
  static constexpr int64_t kCost = 1;
  T margin;
  static Hinge Of(const Attrs& attrs) { return {static_cast<T>(attrs.margin.value_or(1))}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const { return functors::Relu(margin - x * label); }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    return margin - x * label < T(0) ? T(0) : -label * grad;
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    return margin - x * label < T(0) ? T(0) : -x * grad;
  }
};

template <typename T>
struct LogLoss {
  using Attrs = LogLossAttrs;
  static constexpr int64_t kCost = 3;
  T epsilon;
  static LogLoss Of(const Attrs& attrs) { return {static_cast<T>(attrs.epsilon)}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const {
    const T no = (T(1) - label) * functors::Log(T(1) - x + epsilon);
    return -label * functors::Log(x + epsilon) - no;
  }
  OPWRIGHT_CPU_INLINE T GradientX(T x, T label, T grad) const {
    return ((T(1) - label) / (T(1) - x + epsilon) - label / (x + epsilon)) * grad;
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T, T grad) const {
    return (functors::Log(T(1) - x + epsilon) - functors::Log(x + epsilon)) * grad;
  }
};

// The loss is 0 if the label probability is 0.
template <typename T>
struct KlDiv {
  using Attrs = KlDivAttrs;
  static constexpr int64_t kCost = 3;
  bool is_log;
  static KlDiv Of(const Attrs& attrs) { return {attrs.log_label}; }
  OPWRIGHT_CPU_INLINE T Loss(T x, T label) const {
    const T weight = is_log ? functors::Exp(label) : label;
    const T log = is_log ? label : functors::Log(label);
    const T term = weight * (log - x);
    return weight == T(0) ? T(0) : term;
  }
  OPWRIGHT_CPU_INLINE T GradientX(T, T label, T grad) const {
    return -(is_log ? functors::Exp(label) : label) * grad;
  }
  OPWRIGHT_CPU_INLINE T GradientLabel(T x, T label, T grad) const {
    const T weight = functors::Exp(label);
    const T of_log = weight == T(0) ? T(0) : weight * (label - x + T(1));
    const T of_plain = functors::Log(label) - x + T(1);
    return (is_log ? of_log : of_plain) * grad;
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_LOSSES_LOSS_FORMULAS_H_
