// Proximal update rules, and rules that scale each element by past gradients.
#ifndef OPWRIGHT_CUDA_ADAPTIVE_RULES_H_
#define OPWRIGHT_CUDA_ADAPTIVE_RULES_H_

#include "update_rules.h"

namespace opwright_cuda {

template <typename C>
struct Adagrad {
  static constexpr int kTensors = 3;
  static constexpr int kScalars = 0;
  C rate;
  C epsilon;
  static OW_INLINE Adagrad Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(attrs.a)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    values[2] = values[2] + grad * grad;
    values[0] = values[0] - grad / (functors::Sqrt(values[2]) + epsilon) * rate;
  }
};

template <typename C>
struct Adadelta {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 0;
  C rho;
  C rest;
  C epsilon;
  C rate;
  static OW_INLINE Adadelta Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(attrs.a), static_cast<C>(1 - attrs.a), static_cast<C>(attrs.b),
            static_cast<C>(rate)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C square = values[2] * rho + grad * grad * rest;
    const C change = functors::Sqrt(values[3] + epsilon) / functors::Sqrt(square + epsilon) * grad;
    values[2] = square;
    values[3] = values[3] * rho + change * change * rest;
    values[0] = values[0] - change * rate;
  }
};

// The states are the mean square and, if used, the mean gradient and the velocity.
template <typename C, bool is_centered, bool has_velocity>
struct RmspropOf {
  static constexpr int kTensors = 3 + is_centered + has_velocity;
  static constexpr int kScalars = 0;
  C rho;
  C rest;
  C epsilon;
  C momentum;
  C rate;
  static OW_INLINE RmspropOf Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(attrs.a), static_cast<C>(1 - attrs.a), static_cast<C>(attrs.b),
            static_cast<C>(attrs.c), static_cast<C>(rate)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    values[2] = values[2] * rho + grad * grad * rest;
    C variance = values[2];
    if constexpr (is_centered) {
      values[3] = values[3] * rho + grad * rest;
      variance = values[2] - values[3] * values[3];
      variance = variance < C(0) ? C(0) : variance;  // equal gradients leave only rounding errors
    }
    C step = grad / (functors::Sqrt(variance) + epsilon);
    if constexpr (has_velocity) {
      step = values[kTensors - 1] * momentum + step;
      values[kTensors - 1] = step;
    }
    values[0] = values[0] - step * rate;
  }
};
template <typename C>
using Rmsprop = RmspropOf<C, false, false>;
template <typename C>
using RmspropCentered = RmspropOf<C, true, false>;
template <typename C>
using RmspropMomentum = RmspropOf<C, false, true>;
template <typename C>
using RmspropCenteredMomentum = RmspropOf<C, true, true>;

// Returns the minimizer of both penalties plus the squared distance to `moved`, weighted by 1 /
// rate. `bound` is rate * l1, and `divisor` is 1 + rate * l2.
template <typename C>
OW_INLINE C Shrink(C moved, C bound, C divisor) {
  const C above = moved < -bound ? -bound : moved;
  return (moved - (above > bound ? bound : above)) / divisor;
}

template <typename C>
struct ProximalGd {
  static constexpr int kTensors = 2;
  static constexpr int kScalars = 0;
  C rate;
  C bound;
  C divisor;
  static OW_INLINE ProximalGd Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(rate * attrs.a),
            static_cast<C>(1 + rate * attrs.b)};
  }
  OW_INLINE void Update(C* values) const {
    values[0] = Shrink(values[0] - values[1] * rate, bound, divisor);
  }
};

template <typename C>
struct ProximalAdagrad {
  static constexpr int kTensors = 3;
  static constexpr int kScalars = 0;
  C rate;
  C l1;
  C l2;
  C epsilon;
  static OW_INLINE ProximalAdagrad Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(attrs.a), static_cast<C>(attrs.b),
            static_cast<C>(attrs.c)};
  }
  OW_INLINE void Update(C* values) const {
    values[2] = values[2] + values[1] * values[1];
    const C own = rate / (functors::Sqrt(values[2]) + epsilon);
    values[0] = Shrink(values[0] - values[1] * own, own * l1, own * l2 + C(1));
  }
};

template <typename C>
struct Ftrl {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 0;
  C rate;
  C l1;
  C l2_twice;
  static OW_INLINE Ftrl Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(attrs.a), static_cast<C>(2 * attrs.b)};
  }
  OW_INLINE void Update(C* values) const {
    const C sum = values[2] + values[1] * values[1];
    const C root = functors::Sqrt(sum);
    const C sigma = (root - functors::Sqrt(values[2])) / rate;
    const C moved = values[3] + (values[1] - sigma * values[0]);
    values[2] = sum;
    values[3] = moved;
    const C above = moved < -l1 ? -l1 : moved;
    const C next = ((above > l1 ? l1 : above) - moved) / (root / rate + l2_twice);
    values[0] = fabs(moved) <= l1 ? C(0) : next;
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_ADAPTIVE_RULES_H_
