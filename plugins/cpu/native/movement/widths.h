// Converts an element to the type in which kernels compute; for 16-bit floats, this is float.
#ifndef OPWRIGHT_CPU_MOVEMENT_WIDTHS_H_
#define OPWRIGHT_CPU_MOVEMENT_WIDTHS_H_

#include <opwright/sdk.hpp>

#include "common/half.h"

namespace opwright_cpu {

template <typename T>
T NumberOf(T x) {
  return x;
}
inline float NumberOf(opwright::Float16 x) { return FloatOfFloat16(x.bits); }
inline float NumberOf(opwright::BFloat16 x) { return FloatOfBFloat16(x.bits); }

template <typename T>
T Rounded(double x) {
  return static_cast<T>(x);
}
template <>
inline opwright::Float16 Rounded<opwright::Float16>(double x) {
  return opwright::Float16{Float16OfDouble(x)};
}
template <>
inline opwright::BFloat16 Rounded<opwright::BFloat16>(double x) {
  return opwright::BFloat16{BFloat16OfFloat(static_cast<float>(x))};
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_WIDTHS_H_
