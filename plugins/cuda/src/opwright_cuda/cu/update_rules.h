// Update rules of sgd, momentum, lion, adam and adamw.
#ifndef OPWRIGHT_CUDA_UPDATE_RULES_H_
#define OPWRIGHT_CUDA_UPDATE_RULES_H_

#include "kernel.h"

namespace opwright_cuda {

// A tensor with one float or double element.
struct Number {
  const void* at;
  int32_t is_double;
};

OW_INLINE double ReadNumber(const void* at, bool is_double) {
  return is_double ? *static_cast<const double*>(at)
                   : static_cast<double>(*static_cast<const float*>(at));
}

// The attributes, in the order of optimizers.py.
struct Attributes {
  double a;
  double b;
  double c;
  double d;
};

// An update rule defines the tensors that it reads and overwrites, the factors of a step (computed
// once per block), and the update of an element from param, grad and states.
template <typename C>
struct Sgd {
  static constexpr int kTensors = 2;
  static constexpr int kScalars = 0;
  C rate;
  C keep;
  static OW_INLINE Sgd Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(1 - rate * attrs.a)};
  }
  OW_INLINE void Update(C* values) const { values[0] = values[0] * keep - values[1] * rate; }
};

template <typename C>
struct Momentum {
  static constexpr int kTensors = 3;
  static constexpr int kScalars = 0;
  C rate;
  C mu;
  bool is_nesterov;
  static OW_INLINE Momentum Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(rate), static_cast<C>(attrs.a), attrs.b != 0};
  }
  OW_INLINE void Update(C* values) const {
    const C next = values[2] * mu + values[1];
    const C step = is_nesterov ? next * mu + values[1] : next;
    values[2] = next;
    values[0] = values[0] - step * rate;
  }
};

template <typename C>
struct Adam {
  static constexpr int kTensors = 4;
  static constexpr int kScalars = 2;
  C beta1;
  C beta2;
  C rest1;  // 1 - beta1
  C rest2;
  C epsilon;
  C rate;
  C keep;
  template <typename P>
  static OW_INLINE P Next(const Attributes& attrs, int which, P power, const double*) {
    return power * static_cast<P>(which == 0 ? attrs.a : attrs.b);
  }
  // Both bias corrections are hoisted out of the loop over the elements.
  static OW_INLINE Adam Of(const Attributes& attrs, double rate, const double* scalars) {
    const double correction = functors::Sqrt(1 - scalars[1]);
    return {static_cast<C>(attrs.a),
            static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a),
            static_cast<C>(1 - attrs.b),
            static_cast<C>(attrs.c * correction),
            static_cast<C>(rate * correction / (1 - scalars[0])),
            static_cast<C>(1 - rate * attrs.d)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C first = values[2] * beta1 + grad * rest1;
    const C second = values[3] * beta2 + grad * grad * rest2;
    const C step = first / (functors::Sqrt(second) + epsilon) * this->rate;
    values[2] = first;
    values[3] = second;
    values[0] = values[0] * keep - step;
  }
};

template <typename C>
struct Lion {
  static constexpr int kTensors = 3;
  static constexpr int kScalars = 0;
  C beta1;
  C beta2;
  C rest1;
  C rest2;
  C rate;
  C keep;
  static OW_INLINE Lion Of(const Attributes& attrs, double rate, const double*) {
    return {static_cast<C>(attrs.a),     static_cast<C>(attrs.b),
            static_cast<C>(1 - attrs.a), static_cast<C>(1 - attrs.b),
            static_cast<C>(rate),        static_cast<C>(1 - rate * attrs.c)};
  }
  OW_INLINE void Update(C* values) const {
    const C grad = values[1];
    const C direction = values[2] * beta1 + grad * rest1;
    values[2] = values[2] * beta2 + grad * rest2;
    values[0] = values[0] * keep - functors::Sign(direction) * rate;
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_UPDATE_RULES_H_
