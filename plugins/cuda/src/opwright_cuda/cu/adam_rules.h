// The rules of adamax, nadam and radam.
#ifndef OPWRIGHT_CUDA_ADAM_RULES_H_
#define OPWRIGHT_CUDA_ADAM_RULES_H_

#include "update_rules.h"

namespace opwright_cuda {

template <typename C>
struct Adamax {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 1;
  C beta1;
  C beta2;
  C rest1;
  C epsilon;
  C rate;
  static OW_INLINE Adamax Of(const Attributes& attrs, double rate, const double* scalars) {
    return {static_cast<C>(attrs.a), static_cast<C>(attrs.b), static_cast<C>(1 - attrs.a),
            static_cast<C>(attrs.c), static_cast<C>(rate / (1 - scalars[0]))};
  }
  template <typename P>
  static OW_INLINE P Next(const Attributes& attrs, int, P power, const double*) {
    return power * static_cast<P>(attrs.a);
  }
  OW_INLINE void Update(C* values) const {
    const C first = values[2] * beta1 + values[1] * rest1;
    const C size = static_cast<C>(fabs(values[1])) + epsilon;
    const C largest = functors::Maximum(values[3] * beta2, size);
    values[2] = first;
    values[3] = largest;
    values[0] = values[0] - first / largest * rate;
  }
};

// Returns 1 - beta**step without cancellation, even if beta is near 1.
OW_INLINE double RestOfPower(double beta, double step) {
  return beta > 0 ? -functors::Expm1(step * functors::Log(beta)) : 1.0;
}

template <typename C>
struct Nadam {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 2;
  C beta1;
  C beta2;
  C rest1;
  C rest2;
  C epsilon;
  C of_grad;
  C of_moment;
  // Returns mu, which rises from beta1 / 2 to beta1.
  static OW_INLINE double MuOf(const Attributes& attrs, double step) {
    return attrs.a * (1 - 0.5 * pow(0.96, step * attrs.d));
  }
  static OW_INLINE Nadam Of(const Attributes& attrs, double rate, const double* scalars) {
    const double mu = MuOf(attrs, scalars[0]);
    const double next_mu = MuOf(attrs, scalars[0] + 1);
    const double rest = RestOfPower(attrs.b, scalars[0]);
    const double correction = functors::Sqrt(rest < 0 ? 0.0 : rest);
    const double product = scalars[1] * mu;
    const double scaled = rate * correction;
    return {static_cast<C>(attrs.a),
            static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a),
            static_cast<C>(1 - attrs.b),
            static_cast<C>(attrs.c * correction),
            static_cast<C>(scaled * (1 - mu) / (1 - product)),
            static_cast<C>(scaled * next_mu / (1 - product * next_mu))};
  }
  template <typename P>
  static OW_INLINE P Next(const Attributes& attrs, int which, P value, const double* scalars) {
    return which == 0 ? value + P(1) : value * static_cast<P>(MuOf(attrs, scalars[0]));
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C first = values[2] * beta1 + grad * rest1;
    const C second = values[3] * beta2 + grad * grad * rest2;
    values[2] = first;
    values[3] = second;
    const C step = (grad * of_grad + first * of_moment) / (functors::Sqrt(second) + epsilon);
    values[0] = values[0] - step;
  }
};

template <typename C>
struct Radam {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 1;
  C beta1;
  C beta2;
  C rest1;
  C rest2;
  C epsilon;
  C rate;
  bool is_rectified;
  static OW_INLINE Radam Of(const Attributes& attrs, double rate, const double* scalars) {
    const double rest = RestOfPower(attrs.b, scalars[0]);
    const double longest = 2 / (1 - attrs.b) - 1;
    const double length = longest - 2 * scalars[0] * (1 - rest) / rest;
    const double full = (longest - 4) * (longest - 2) * length;
    const double rectified = (length - 4) * (length - 2) * longest;
    double scaled = rate / RestOfPower(attrs.a, scalars[0]);
    if (!(length <= 5)) scaled *= functors::Sqrt(rectified / full * rest);
    return {static_cast<C>(attrs.a),
            static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a),
            static_cast<C>(1 - attrs.b),
            static_cast<C>(attrs.c),
            static_cast<C>(scaled),
            !(length <= 5)};
  }
  template <typename P>
  static OW_INLINE P Next(const Attributes&, int, P step, const double*) {
    return step + P(1);
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C first = values[2] * beta1 + grad * rest1;
    const C second = values[3] * beta2 + grad * grad * rest2;
    values[2] = first;
    values[3] = second;
    const C step = is_rectified ? first / (functors::Sqrt(second) + epsilon) : first;
    values[0] = values[0] - step * rate;
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_ADAM_RULES_H_
