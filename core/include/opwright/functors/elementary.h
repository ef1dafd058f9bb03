// Elementary functions without branches, so loops over them are vectorized for the instruction
// set that they are compiled for.
//
//   Exp Log Log1p Sqrt             within 1.1 ulp of the exact value (Sqrt rounds correctly)
//   ExpNonPositive                 within 1.1 ulp, for arguments up to 0
//   Expm1                          within 2.2 ulp
//   Tanh Sigmoid                   within 3 ulp
//   Erf                            within 3.5 ulp
//   Erfc                           within 5 ulp
//   Log2 Sinh Cosh Rsqrt           within 2.5 ulp
//   Log1pUpTo1                     within 3 ulp, for arguments from 0 to 1
//   NormalCdf                      within 6 + 1.5 x**2 ulp, since the square is rounded
//
// for float and double; tests/native/test_functors.cc checks these bounds, with and without fused
// multiply-add. Denormal arguments and results are not flushed to zero. The result for NaN is NaN,
// and for an infinity the limit. The polynomials are nearly minimax, and their own error is below a
// sixth of an ulp. Only -fno-trapping-math and -fno-math-errno may be given; reassociation
// (-ffast-math) would remove roundings on which the argument reductions depend.
//
// NVRTC also compiles this file. On the GPU, most functions call CUDA's built-in functions, with
// their error bounds, and quotients may be off by 2 ulp.
#ifndef OPWRIGHT_FUNCTORS_ELEMENTARY_H_
#define OPWRIGHT_FUNCTORS_ELEMENTARY_H_

#if defined(__CUDACC_RTC__)

#define OPWRIGHT_FUNCTOR __device__ __forceinline__

#include "opwright/functors/polynomials.h"

namespace opwright {
namespace functors {

#define OPWRIGHT_DEVICE_FUNCTION_(name, of_float, of_double)   \
  OPWRIGHT_FUNCTOR float name(float x) { return of_float(x); } \
  OPWRIGHT_FUNCTOR double name(double x) { return of_double(x); }
OPWRIGHT_DEVICE_FUNCTION_(Exp, ::expf, ::exp)
OPWRIGHT_DEVICE_FUNCTION_(ExpNonPositive, ::expf, ::exp)
OPWRIGHT_DEVICE_FUNCTION_(Expm1, ::expm1f, ::expm1)
OPWRIGHT_DEVICE_FUNCTION_(Log, ::logf, ::log)
OPWRIGHT_DEVICE_FUNCTION_(Log1p, ::log1pf, ::log1p)
OPWRIGHT_DEVICE_FUNCTION_(Sqrt, ::sqrtf, ::sqrt)
OPWRIGHT_DEVICE_FUNCTION_(Tanh, ::tanhf, ::tanh)
OPWRIGHT_DEVICE_FUNCTION_(Erf, ::erff, ::erf)
OPWRIGHT_DEVICE_FUNCTION_(Erfc, ::erfcf, ::erfc)
OPWRIGHT_DEVICE_FUNCTION_(Log2, ::log2f, ::log2)
OPWRIGHT_DEVICE_FUNCTION_(Rsqrt, ::rsqrtf, ::rsqrt)
OPWRIGHT_DEVICE_FUNCTION_(Sinh, ::sinhf, ::sinh)
OPWRIGHT_DEVICE_FUNCTION_(Cosh, ::coshf, ::cosh)
OPWRIGHT_DEVICE_FUNCTION_(Sin, ::sinf, ::sin)
OPWRIGHT_DEVICE_FUNCTION_(Cos, ::cosf, ::cos)
OPWRIGHT_DEVICE_FUNCTION_(Tan, ::tanf, ::tan)
OPWRIGHT_DEVICE_FUNCTION_(Asin, ::asinf, ::asin)
OPWRIGHT_DEVICE_FUNCTION_(Acos, ::acosf, ::acos)
OPWRIGHT_DEVICE_FUNCTION_(Atan, ::atanf, ::atan)
OPWRIGHT_DEVICE_FUNCTION_(Ceil, ::ceilf, ::ceil)
OPWRIGHT_DEVICE_FUNCTION_(Floor, ::floorf, ::floor)
OPWRIGHT_DEVICE_FUNCTION_(Round, ::rintf, ::rint)
#undef OPWRIGHT_DEVICE_FUNCTION_

OPWRIGHT_FUNCTOR float Atan2(float y, float x) { return ::atan2f(y, x); }
OPWRIGHT_FUNCTOR double Atan2(double y, double x) { return ::atan2(y, x); }
OPWRIGHT_FUNCTOR float Remainder(float x, float y) { return ::fmodf(x, y); }
OPWRIGHT_FUNCTOR double Remainder(double x, double y) { return ::fmod(x, y); }

OPWRIGHT_FUNCTOR double Log1pUpTo1(double x) { return ::log1p(x); }

// Returns x / y within 2 ulp for divisors up to 2**126; correct rounding takes three times as long.
OPWRIGHT_FUNCTOR float Quotient(float x, float y) { return ::__fdividef(x, y); }
OPWRIGHT_FUNCTOR double Quotient(double x, double y) { return x / y; }

// e**x / (1 + e**x) has full relative accuracy in the left tail; at the bound the quotient is 1 in
// either type, and the power is still finite.
template <typename T>
OPWRIGHT_FUNCTOR T Sigmoid(T x) {
  const T power = Exp(x > T(40) ? T(40) : x);
  return Quotient(power, T(1) + power);
}

// Computed as on the CPU, with half as many instructions as ::normcdff, which takes longer than the
// memory accesses.
OPWRIGHT_FUNCTOR float NormalCdf(float x) {
  const float u = Quotient(4.0f, 4.0f + ::fabsf(x));
  const float tail = Exp(x * x * -0.5f) * detail::NormalTail<0>(u);
  return x < 0.0f ? tail : 1.0f - tail;
}
OPWRIGHT_FUNCTOR double NormalCdf(double x) { return ::normcdf(x); }

}  // namespace functors
}  // namespace opwright

#else

#include <cstdint>

// Always inlined, since a separate function would be compiled for the oldest instruction set.
#define OPWRIGHT_FUNCTOR inline __attribute__((always_inline))

#include "opwright/functors/parts.h"

namespace opwright {
namespace functors {

namespace detail {

// Returns 2**kExpShift * e**x for x <= 0; the result is normal if e**x does not round to 0. Invalid
// below kLeastExp.
template <typename T>
constexpr typename Format<T>::Bits kExpShift = Format<T>::kMantissaBits + 2;

template <typename T>
OPWRIGHT_FUNCTOR T ShiftedExp(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const Reduced<T> r = ReduceByLn2(x, Bits(F::kBias + kExpShift<T>));
  const T scale = PowerOfTwo<T>(r.bits);
  const T above_one = r.rest * r.rest * ExpTail(r.rest) + r.rest;
  return above_one * scale + scale;
}

}  // namespace detail

template <typename T>
OPWRIGHT_FUNCTOR T Sqrt(T x) {
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_sqrtf(x);
  return static_cast<T>(__builtin_sqrt(x));
}

// The results beyond the bounds are selected afterward. If the argument were clamped first,
// compilers would generate several comparisons, and constants for the results at the bounds.
template <typename T>
OPWRIGHT_FUNCTOR T Exp(T x) {
  using F = detail::Format<T>;
  const detail::Scaled<T> r = detail::ScaleByLn2(x);
  const T above_one = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  const T power = (above_one * r.first + r.first) * r.second;
  const T above = x < F::kLeastExp ? T(0) : power;
  return x > F::kMostExp ? T(__builtin_inf()) : above;
}

// Returns e**x for x <= 0. No power overflows, so a constant undoes the shift that avoids
// denormals.
template <typename T>
OPWRIGHT_FUNCTOR T ExpNonPositive(T x) {
  using F = detail::Format<T>;
  using Bits = typename F::Bits;
  const T unshift = detail::PowerOfTwo<T>(Bits(F::kBias - detail::kExpShift<T>));
  const T power = detail::ShiftedExp(x) * unshift;
  return x < F::kLeastExp ? T(0) : power;
}

// e**x - 1 = 2**n * (e**r - 1 + (1 - 2**-n)).
template <typename T>
OPWRIGHT_FUNCTOR T Expm1(T x) {
  using F = detail::Format<T>;
  const detail::Scaled<T> r = detail::ScaleByLn2(detail::Clamp(x, F::kLeastExpm1, F::kMostExp));
  const T inverse = detail::InverseOfPower(r.first) * detail::InverseOfPower(r.second);
  const T mantissa = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  const T result = (mantissa + (T(1) - inverse)) * r.first * r.second;
  return x == T(0) ? x : result;  // keeps the sign of 0
}

template <typename T>
OPWRIGHT_FUNCTOR T Log(T x) {
  using F = detail::Format<T>;
  constexpr T kRaise = T(int64_t(1) << (F::kMantissaBits + 2));
  const bool denormal = x < F::kLeastNormal;
  const T normal = denormal ? x * kRaise : x;
  const T offset = denormal ? T(-F::kMantissaBits - 2) : T(0);
  return detail::WithLogEnds(x, detail::LogOfSum(normal, T(0), offset));
}

template <typename T>
OPWRIGHT_FUNCTOR T Log1p(T x) {
  const T u = T(1) + x;
  const T lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  const T result = detail::WithLogEnds(u, detail::LogOfSum(u, lost / u, T(0)));
  return x == T(0) ? x : result;
}

OPWRIGHT_FUNCTOR double Log1pUpTo1(double x) { return Log1p(x); }

// The exponent is added to the logarithm of the mantissa, so the result is exact for powers of
// 2.
template <typename T>
OPWRIGHT_FUNCTOR T Log2(T x) {
  using F = detail::Format<T>;
  constexpr T kRaise = T(int64_t(1) << (F::kMantissaBits + 2));
  const bool denormal = x < F::kLeastNormal;
  const T normal = denormal ? x * kRaise : x;
  const detail::Mantissa<T> m = detail::TakeExponent(normal);
  const T exponent = denormal ? m.exponent - T(F::kMantissaBits + 2) : m.exponent;
  const T log = detail::LogBend(m.f, T(0)) + m.f;
  return detail::WithLogEnds(x, log * T(1.4426950408889634074) + exponent);
}

template <typename T>
OPWRIGHT_FUNCTOR T Rsqrt(T x) {
  return T(1) / Sqrt(x);
}

namespace detail {

// Returns e**a / 2 for a >= 0; the result is infinite only if e**a / 2 overflows.
template <typename T>
OPWRIGHT_FUNCTOR T HalfExp(T a) {
  constexpr T kMost = Format<T>::kMostExp + T(2);
  const Scaled<T> r = ScaleByLn2(a > kMost ? kMost : a);
  const T above_one = r.rest * r.rest * ExpTail(r.rest) + r.rest;
  return (above_one * r.first + r.first) * (r.second * T(0.5));
}

}  // namespace detail

// With h = e**|x| / 2, e**-|x| / 2 = 1 / 4h. Near 0, a polynomial avoids the loss of precision.
template <typename T>
OPWRIGHT_FUNCTOR T Sinh(T x) {
  const T a = detail::AbsoluteValue(x);
  const T z = x * x;
  const T half = detail::HalfExp(a);
  const T far = detail::WithSignOf(half - T(0.25) / half, x);
  const T near = z * detail::SinhTail(z) * x + x;
  return a < T(1) ? near : far;
}

template <typename T>
OPWRIGHT_FUNCTOR T Cosh(T x) {
  const T half = detail::HalfExp(detail::AbsoluteValue(x));
  return half + T(0.25) / half;
}

// Rounds to the nearest integer, ties to even.
OPWRIGHT_FUNCTOR float Round(float x) { return __builtin_nearbyintf(x); }
OPWRIGHT_FUNCTOR double Round(double x) { return __builtin_nearbyint(x); }
OPWRIGHT_FUNCTOR float Ceil(float x) { return __builtin_ceilf(x); }
OPWRIGHT_FUNCTOR double Ceil(double x) { return __builtin_ceil(x); }
OPWRIGHT_FUNCTOR float Floor(float x) { return __builtin_floorf(x); }
OPWRIGHT_FUNCTOR double Floor(double x) { return __builtin_floor(x); }

// (e**2a - 1) / (e**2a + 1) with a = |x|, which avoids cancellation.
template <typename T>
OPWRIGHT_FUNCTOR T Tanh(T x) {
  using F = detail::Format<T>;
  const T a = detail::AbsoluteValue(x);
  const T bounded = a > F::kOneTanh ? F::kOneTanh : a;
  const detail::Reduced<T> r = detail::ReduceByLn2(bounded + bounded, F::kBias);
  const T scale = detail::PowerOfTwo<T>(r.bits);
  const T expm1 = (r.rest * r.rest * detail::ExpTail(r.rest) + r.rest) * scale + (scale - T(1));
  return detail::WithSignOf(expm1 / (expm1 + T(2)), x);
}

// e**x / (1 + e**x) = p / (p + 2**-n) with e**x = 2**n * p has full relative accuracy in the left
// tail. Numerator and denominator are scaled by 2**-shift, so 2**-n does not overflow and denormal
// results are not lost; from 40 on, the result is 1 in either type.
template <typename T>
OPWRIGHT_FUNCTOR T Sigmoid(T x) {
  using F = detail::Format<T>;
  using Bits = typename F::Bits;
  constexpr Bits kShift = (F::kBias + 1) / 2;
  const T scale = detail::PowerOfTwo<T>(Bits(F::kBias - kShift));
  const detail::Reduced<T> r = detail::ReduceByLn2(x, Bits(0));
  const T inverse = detail::PowerOfTwo<T>(Bits(F::kBias - kShift - r.bits));
  const T above_one = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  const T power = above_one * scale + scale;
  const T quotient = power / (power + inverse);
  const T above = x < F::kLeastExp ? T(0) : quotient;
  return x > T(40) ? T(1) : above;
}

namespace detail {

// Returns erfc(a) for a >= 0.75. e**(-a**2) needs the square to higher precision than the type has.
template <typename T>
OPWRIGHT_FUNCTOR T ErfcTail(T a) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const T bounded = a > F::kErfcEnd ? F::kErfcEnd : a;
  const T high = BitCast<T>(Bits(BitCast<Bits>(bounded) & F::kHighHalf));
  const T square = bounded * bounded;
  const T lost = (high * high - square) + (bounded - high) * (bounded + high);
  const T power = ExpNonPositive(-square);
  // One division yields both quotients.
  const T sum = bounded + F::kErfcScale;
  const T divisor = T(1) + (bounded + bounded);
  const T inverse = T(1) / (sum * divisor);
  const T q = (bounded - F::kErfcScale) * divisor * inverse;
  return (power - power * lost) * ScaledErfc(q) * (sum * inverse);
}

// Returns erf(a) for a > 0.75. The number that is subtracted from 1 can be imprecise; in float, a
// polynomial approximates its logarithm. From 4 on, the result is 1.
OPWRIGHT_FUNCTOR float ErfFar(float a) {
  constexpr float c[] = {-1.12853348f,  -0.635653198f,   -0.105348334f,
                         0.0229457933f, -0.00323246792f, 0.000216120214f};
  const float bounded = a > 4.0f ? 4.0f : a;
  return 1.0f - ExpNonPositive(bounded * Polynomial(bounded, c));
}
OPWRIGHT_FUNCTOR double ErfFar(double a) { return 1.0 - ErfcTail(a); }

}  // namespace detail

template <typename T>
OPWRIGHT_FUNCTOR T Erf(T x) {
  const T a = detail::AbsoluteValue(x);
  const T near = x * detail::ErfNearZero(x * x);
  const T far = detail::WithSignOf(detail::ErfFar(a), x);
  return a > T(0.75) ? far : near;
}

template <typename T>
OPWRIGHT_FUNCTOR T Erfc(T x) {
  const T a = detail::AbsoluteValue(x);
  const T near = T(1) - x * detail::ErfNearZero(x * x);
  const T tail = detail::ErfcTail(a);
  const T far = x < T(0) ? T(2) - tail : tail;
  return a > T(0.75) ? far : near;
}

// The normal distribution function. In float, e**(-x**2 / 2) times a polynomial is valid for all x
// and a third shorter than erfc. The polynomial undoes the shift of the exponential.
OPWRIGHT_FUNCTOR float NormalCdf(float x) {
  const float u = 4.0f / (4.0f + detail::AbsoluteValue(x));
  const float exponent = x * x * -0.5f;
  constexpr int kShift = detail::kExpShift<float>;
  const float product = detail::ShiftedExp(exponent) * detail::NormalTail<kShift>(u);
  const float tail = exponent < detail::Format<float>::kLeastExp ? 0.0f : product;
  return x < 0.0f ? tail : 1.0f - tail;
}
OPWRIGHT_FUNCTOR double NormalCdf(double x) { return Erfc(x * -0.70710678118654752440) * 0.5; }

}  // namespace functors
}  // namespace opwright

#include "opwright/functors/division.h"
#include "opwright/functors/trigonometry.h"

#endif  // __CUDACC_RTC__
#endif  // OPWRIGHT_FUNCTORS_ELEMENTARY_H_
