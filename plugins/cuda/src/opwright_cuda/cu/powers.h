// Functors of powers and their gradients.
#ifndef OPWRIGHT_CUDA_POWERS_H_
#define OPWRIGHT_CUDA_POWERS_H_

#include "kernel.h"

namespace opwright_cuda {

OW_INLINE float PowerOf(float x, float y) { return ::powf(x, y); }
OW_INLINE double PowerOf(double x, double y) { return ::pow(x, y); }

template <typename T>
struct Power {
  OW_INLINE T operator()(T x, T y) const { return PowerOf(x, y); }
};

// Integers wrap around. Negative exponents are reported, since the results would not be integers.
template <typename T>
struct WholePower {
  Fault* fault;
  int32_t text;
  OW_INLINE T operator()(T x, T y) const {
    if (IsSigned<T>::value && y < T(0)) {
      Report(fault, text, static_cast<int64_t>(y));
      return T(0);
    }
    uint64_t power = 1;
    auto factor = static_cast<uint64_t>(x);
    for (auto left = static_cast<uint64_t>(y); left != 0; left >>= 1) {
      if ((left & 1) != 0) power *= factor;
      factor *= factor;
    }
    return static_cast<T>(power);
  }
};

// Returns factor * x**y, even if the power alone overflows or underflows.
template <typename T>
OW_INLINE T TimesPower(T factor, T x, T y) {
  constexpr T kLeastNormal = sizeof(T) == 4 ? T(0x1p-126f) : T(0x1p-1022);
  const T power = PowerOf(x, y);
  const bool is_extreme = fabs(power) < kLeastNormal || functors::IsInf(power);
  if (!is_extreme || x == T(0) || functors::IsInf(x)) return factor * power;
  const T root = PowerOf(static_cast<T>(fabs(x)), y / T(2));
  const bool is_negative = ::copysign(1.0, static_cast<double>(power)) < 0;
  return (is_negative ? -factor : factor) * root * root;
}

// Returns y x**(y - 1) times out_grad, which is 0 for the constant x**0 even if x is 0 or out_grad
// is infinite. If x**y is NaN, the derivative is NaN too, although y - 1 may round to an integer.
template <typename T>
struct PowerGradOfBase {
  OW_INLINE T operator()(T x, T y, T out, T out_grad) const {
    const T grad = out == out ? TimesPower(y * out_grad, x, y - T(1)) : out;
    return y == T(0) ? T(0) : grad;
  }
};
// Returns x**y ln(x) times out_grad, or 0, the limit for y > 0, if x is 0 and y is not negative.
template <typename T>
struct PowerGradOfExponent {
  OW_INLINE T operator()(T x, T y, T out, T out_grad) const {
    return x == T(0) && y >= T(0) ? T(0) : out * out_grad * functors::Log(x);
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_POWERS_H_
