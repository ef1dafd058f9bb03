// The functors of elementary functions, divisions and further activations; see functions.h.
#ifndef OPWRIGHT_CUDA_MATHEMATICS_H_
#define OPWRIGHT_CUDA_MATHEMATICS_H_

#include "functions.h"
#include "powers.h"

namespace opwright_cuda {

OW_FUNCTION_1(Expm1, functors::Expm1(x));
OW_FUNCTION_1(Log1p, functors::Log1p(x));
OW_FUNCTION_1(Log2, functors::Log2(x));
OW_FUNCTION_1(Rsqrt, functors::Rsqrt(x));
OW_FUNCTION_1(Sin, functors::Sin(x));
OW_FUNCTION_1(Cos, functors::Cos(x));
OW_FUNCTION_1(Tan, functors::Tan(x));
OW_FUNCTION_1(Asin, functors::Asin(x));
OW_FUNCTION_1(Acos, functors::Acos(x));
OW_FUNCTION_1(Atan, functors::Atan(x));
OW_FUNCTION_1(Sinh, functors::Sinh(x));
OW_FUNCTION_1(Cosh, functors::Cosh(x));
OW_FUNCTION_1(Relu6, functors::Relu6(x));
OW_FUNCTION_1(HardSwish, functors::HardSwish(x));
OW_FUNCTION_1(LogSigmoid, functors::LogSigmoid(x));
OW_FUNCTION_1(Softsign, functors::Softsign(x));
OW_FUNCTION_1(Mish, functors::Mish(x));
OW_FUNCTION_1(TanhShrink, functors::TanhShrink(x));
OW_FUNCTION_1(Selu, functors::Selu(x));

OW_FUNCTION_2(RsqrtGrad, functors::RsqrtGrad(x, y));
OW_FUNCTION_2(TanGrad, functors::TanGrad(x, y));
OW_FUNCTION_2(AsinGrad, functors::AsinGrad(x, y));
OW_FUNCTION_2(AcosGrad, functors::AcosGrad(x, y));
OW_FUNCTION_2(AtanGrad, functors::AtanGrad(x, y));
OW_FUNCTION_2(Relu6Grad, functors::Relu6Grad(x, y));
OW_FUNCTION_2(HardSwishGrad, functors::HardSwishGrad(x, y));
OW_FUNCTION_2(LogSigmoidGrad, functors::LogSigmoidGrad(x, y));
OW_FUNCTION_2(SoftsignGrad, functors::SoftsignGrad(x, y));
OW_FUNCTION_2(MishGrad, functors::MishGrad(x, y));
OW_FUNCTION_2(TanhShrinkGrad, functors::TanhShrinkGrad(x, y));
OW_FUNCTION_2(SeluGrad, functors::SeluGrad(x, y));
OW_FUNCTION_2(NanToNumGrad, functors::NanToNumGrad(x, y));

OW_WITH_ALPHA(Celu, (T x), functors::Celu(x, alpha));
OW_WITH_ALPHA(CeluGrad, (T x, T out_grad), functors::CeluGrad(x, out_grad, alpha));
OW_WITH_ALPHA(Swish, (T x), functors::Swish(x, alpha));
OW_WITH_ALPHA(SwishGrad, (T x, T out_grad), functors::SwishGrad(x, out_grad, alpha));
OW_WITH_ALPHA(SoftRelu, (T x), functors::SoftRelu(x, alpha));
OW_WITH_ALPHA(SoftReluGrad, (T x, T out_grad), functors::SoftReluGrad(x, out_grad, alpha));
OW_WITH_ALPHA(HardShrink, (T x), functors::HardShrink(x, alpha));
OW_WITH_ALPHA(HardShrinkGrad, (T x, T out_grad), functors::ShrinkGrad(x, out_grad, alpha));
OW_WITH_ALPHA(SoftShrink, (T x), functors::SoftShrink(x, alpha));
OW_WITH_ALPHA(ThresholdedRelu, (T x), functors::ThresholdedRelu(x, alpha));
OW_WITH_ALPHA(ThresholdedReluGrad, (T x, T out_grad),
              functors::ThresholdedReluGrad(x, out_grad, alpha));
OW_WITH_ALPHA(PowScalar, (T x), PowerOf(x, alpha));
OW_WITH_ALPHA(Increment, (T x),
              static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(alpha)));

OW_WITH_PAIR(HardSigmoid, (T x), functors::HardSigmoid(x, first, second));
OW_WITH_PAIR(HardSigmoidGrad, (T out, T out_grad), functors::HardSigmoidGrad(out, out_grad, first));
OW_WITH_PAIR(Stanh, (T x), functors::Stanh(x, first, second));
OW_WITH_PAIR(StanhGrad, (T x, T out_grad), functors::StanhGrad(x, out_grad, first, second));

// Integers are always finite and are returned unchanged.
template <typename T, bool is_float>
struct NanToNumOf {
  T nan;
  T above;
  T below;
  OW_INLINE T operator()(T x) const { return functors::NanToNum(x, nan, above, below); }
};
template <typename T>
struct NanToNumOf<T, false> {
  OW_INLINE T operator()(T x) const { return x; }
};
template <typename T>
using NanToNum = NanToNumOf<T, IsFloat<T>::value>;
template <typename T>
struct IsNan {
  OW_INLINE bool operator()(T x) const { return x != x; }
};
template <typename T>
struct IsInf {
  OW_INLINE bool operator()(T x) const {
    if constexpr (IsFloat<T>::value) return functors::IsInf(x);
    return false;
  }
};
template <typename T>
struct IsFinite {
  OW_INLINE bool operator()(T x) const {
    if constexpr (IsFloat<T>::value) return functors::IsFinite(x);
    return true;
  }
};
template <typename T>
OW_INLINE T CeilOf(T x) {
  if constexpr (IsFloat<T>::value) return functors::Ceil(x);
  return x;
}
template <typename T>
OW_INLINE T FloorOf(T x) {
  if constexpr (IsFloat<T>::value) return functors::Floor(x);
  return x;
}
template <typename T>
OW_INLINE T RoundOf(T x) {
  if constexpr (IsFloat<T>::value) return functors::Round(x);
  return x;
}
OW_FUNCTION_1(Ceil, CeilOf(x));
OW_FUNCTION_1(Floor, FloorOf(x));
OW_FUNCTION_1(Round, RoundOf(x));

OW_FUNCTION_2(SquaredDifference, static_cast<T>((static_cast<W>(x) - static_cast<W>(y)) *
                                                (static_cast<W>(x) - static_cast<W>(y))));
OW_FUNCTION_2(Prelu, functors::LeakyRelu(x, y));
OW_FUNCTION_2(Atan2, functors::Atan2(x, y));
OW_FUNCTION_2(Atan2Derivative, functors::Atan2Derivative(x, y));

// As in NumPy, an integer quotient is 0 if y is 0, and the minimum divided by -1 wraps to itself.
template <typename T>
OW_INLINE T ModOf(T x, T y) {
  if constexpr (IsFloat<T>::value) {
    return functors::ModOfRemainder(functors::Remainder(x, y), y);
  } else {
    if (y == T(0) || (IsSigned<T>::value && y == static_cast<T>(-1))) return T(0);
    const T rest = static_cast<T>(x % y);
    return rest != T(0) && (rest < T(0)) != (y < T(0)) ? static_cast<T>(rest + y) : rest;
  }
}
template <typename T>
OW_INLINE T FloorDivideOf(T x, T y) {
  if constexpr (IsFloat<T>::value) {
    return functors::FloorDivideOfRemainder(x, y, functors::Remainder(x, y));
  } else {
    if (y == T(0)) return T(0);
    if (IsSigned<T>::value && y == static_cast<T>(-1)) return NegativeOf(x);
    const T cut = static_cast<T>(x / y);
    const bool is_above = x % y != T(0) && (x < T(0)) != (y < T(0));
    return static_cast<T>(cut - static_cast<T>(is_above));
  }
}
OW_FUNCTION_2(Mod, ModOf(x, y));
OW_FUNCTION_2(FloorDivide, FloorDivideOf(x, y));

OW_FUNCTION_1(Erfc, functors::Erfc(x));
OW_FUNCTION_2(Copysign, copysign(x, y));
OW_FUNCTION_2(BitwiseAnd, static_cast<T>(x& y));
OW_FUNCTION_2(BitwiseOr, static_cast<T>(x | y));
OW_FUNCTION_2(BitwiseXor, static_cast<T>(x ^ y));
OW_FUNCTION_1(BitwiseNot, static_cast<T>(~x));
template <>
struct BitwiseNot<bool> {
  OW_INLINE bool operator()(bool x) const { return !x; }
};

// As in NumPy, a shift count that is negative or at least the number of bits shifts all bits out.
template <typename T>
OW_INLINE T LeftShiftOf(T x, T y) {
  const bool is_inside = y >= T(0) && y < T(8 * sizeof(T));
  return is_inside ? static_cast<T>(static_cast<Wrapping<T>>(x) << y) : T(0);
}
template <typename T>
OW_INLINE T RightShiftOf(T x, T y) {
  const bool is_inside = y >= T(0) && y < T(8 * sizeof(T));
  const T emptied = IsSigned<T>::value && x < T(0) ? static_cast<T>(-1) : T(0);
  return is_inside ? static_cast<T>(x >> y) : emptied;
}
OW_FUNCTION_2(LeftShift, LeftShiftOf(x, y));
OW_FUNCTION_2(RightShift, RightShiftOf(x, y));

// Interpolates from the nearer end, so a weight of 1 returns exactly y.
template <typename T>
struct Lerp {
  OW_INLINE T operator()(T x, T y, T weight) const {
    const bool is_near_x = fabs(weight) < T(0.5);
    return (y - x) * (is_near_x ? weight : weight - T(1)) + (is_near_x ? x : y);
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_MATHEMATICS_H_
