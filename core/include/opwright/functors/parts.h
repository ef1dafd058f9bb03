// Parts of the elementary functions: number formats and powers of two. Included by elementary.h,
// which defines OPWRIGHT_FUNCTOR.
#ifndef OPWRIGHT_FUNCTORS_PARTS_H_
#define OPWRIGHT_FUNCTORS_PARTS_H_

#include <cstdint>

#include "opwright/functors/polynomials.h"

namespace opwright {
namespace functors {
namespace detail {

template <typename T>
struct Format;

// Constants of the IEEE format binary32.
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kBias = 127;
  static constexpr Bits kSqrtHalf = 0x3f3504f3u;
  static constexpr Bits kUnitBits = 0x4b000000u;  // bits of 2**kMantissaBits
  static constexpr float kRound = 12582912.0f;    // 1.5 * 2**kMantissaBits
  static constexpr float kLeastNormal = 1.17549435e-38f;
  static constexpr Bits kHighHalf = 0xfffff000u;         // bits whose square is exact
  static constexpr float kLn2High = 0.693145751953125f;  // 15 bits: times an exponent is exact
  static constexpr float kLn2Low = 1.42860682030941e-06f;
  static constexpr float kLeastExp = -104.0f;  // below, e**x rounds to 0
  static constexpr float kMostExp = 89.0f;     // above, it is infinite
  static constexpr float kLeastExpm1 = -20.0f;
  static constexpr float kOneTanh = 10.0f;  // above, tanh is 1 in this type
  static constexpr float kErfcEnd = 10.5f;  // above, erfc rounds to 0
  static constexpr float kErfcScale = 2.0f;
};

// Constants of binary64.
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kBias = 1023;
  static constexpr Bits kSqrtHalf = 0x3fe6a09e667f3bcdu;
  static constexpr Bits kUnitBits = 0x4330000000000000u;
  static constexpr double kRound = 6755399441055744.0;
  static constexpr double kLeastNormal = 2.2250738585072014e-308;
  static constexpr Bits kHighHalf = 0xfffffffff8000000u;
  static constexpr double kLn2High = 0.69314718036912381649;  // 32 bits
  static constexpr double kLn2Low = 1.9082149292705878161e-10;
  static constexpr double kLeastExp = -746.0;
  static constexpr double kMostExp = 710.0;
  static constexpr double kLeastExpm1 = -40.0;
  static constexpr double kOneTanh = 20.0;
  static constexpr double kErfcEnd = 27.3;
  static constexpr double kErfcScale = 4.0;
};

template <typename To, typename From>
OPWRIGHT_FUNCTOR To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// Splits x = exponent * ln(2) + rest with |rest| <= ln(2) / 2. The low bits of `bits` are exponent
// + offset.
template <typename T>
struct Reduced {
  T rest;
  typename Format<T>::Bits bits;
};

// Adding 1.5 * 2**m rounds to the nearest integer, which is then in the sum's low bits. The
// addition avoids a conversion, which older instruction sets lack for vectors of double. With an
// offset, a shift turns these bits into the exponent of a power of two.
template <typename T>
OPWRIGHT_FUNCTOR Reduced<T> ReduceByLn2(T x, typename Format<T>::Bits offset) {
  using F = Format<T>;
  const T round = F::kRound + static_cast<T>(offset);
  const T shifted = x * T(1.4426950408889634074) + round;
  const T exponent = shifted - round;
  const T rest = (x - exponent * F::kLn2High) - exponent * F::kLn2Low;
  return {rest, BitCast<typename F::Bits>(shifted)};
}

// Returns 2**(low bits of `exponent` - bias); the other bits are shifted out.
template <typename T>
OPWRIGHT_FUNCTOR T PowerOfTwo(typename Format<T>::Bits exponent) {
  using Bits = typename Format<T>::Bits;
  return BitCast<T>(Bits(exponent << Format<T>::kMantissaBits));
}

// Splits x = exponent * ln(2) + rest, with 2**exponent as two factors, since 2**1024 and 2**-1074
// are not normal numbers. Multiplying by both factors in turn rounds once, to denormals or
// infinity. A separate sum rounds the first factor to about half the exponent, which takes fewer
// instructions than halving the exponent.
template <typename T>
struct Scaled {
  T rest;
  T first;
  T second;
};

template <typename T>
OPWRIGHT_FUNCTOR Scaled<T> ScaleByLn2(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const Reduced<T> r = ReduceByLn2(x, 2 * F::kBias);
  const T half = x * T(0.72134752044448170367) + (F::kRound + static_cast<T>(F::kBias));
  const Bits half_bits = BitCast<Bits>(half);
  return {r.rest, PowerOfTwo<T>(half_bits), PowerOfTwo<T>(Bits(r.bits - half_bits))};
}

// 1 / power, for a power of two.
template <typename T>
OPWRIGHT_FUNCTOR T InverseOfPower(T power) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  return BitCast<T>(Bits(((2 * F::kBias) << F::kMantissaBits) - BitCast<Bits>(power)));
}

// (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2.
OPWRIGHT_FUNCTOR float ExpTail(float r) {
  constexpr float c[] = {0.5f, 0.166665757f, 0.0416665216f, 0.00836339559f, 0.00139299091f};
  return Polynomial(r, c);
}
OPWRIGHT_FUNCTOR double ExpTail(double r) {
  constexpr double c[] = {0.5,
                          0.166666666666666711,
                          0.0416666666666666776,
                          0.0083333333333259255,
                          0.00138888888888776408,
                          0.000198412698755506531,
                          0.0000248015873418254102,
                          2.7557254477807778e-6,
                          2.75572562418006674e-7,
                          2.51055994221371971e-8,
                          2.09211099109752966e-9};
  return Polynomial(r, c);
}

// (ln(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f < sqrt(2).
OPWRIGHT_FUNCTOR float LogTail(float f) {
  constexpr float c[] = {0.333333313f, -0.250008196f, 0.200012401f, -0.166234076f,
                         0.142016277f, -0.131596833f, 0.127618611f, -0.0763575062f};
  return Polynomial(f, c);
}
// ln((1 + s) / (1 - s)) = s * (2 + z * LogQuotientTail(z)) with z = s**2, for |s| <= 0.172.
OPWRIGHT_FUNCTOR double LogQuotientTail(double z) {
  constexpr double c[] = {0.666666666666666981, 0.399999999998960705, 0.285714286275287956,
                          0.222222108819329271, 0.181829074976712178, 0.153311125879601676,
                          0.146239566082118787};
  return Polynomial(z, c);
}

// (sinh(x) / x - 1) / x**2 with z = x**2, for |x| <= 1.
OPWRIGHT_FUNCTOR float SinhTail(float z) {
  constexpr float c[] = {0.1666666665f, 0.008333339695f, 0.0001983809559f, 2.806331254e-6f};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double SinhTail(double z) {
  constexpr double c[] = {0.166666666666666667,   0.00833333333333329915, 0.000198412698413244708,
                          2.75573191912508859e-6, 2.50521177239531979e-8, 1.60576768827394751e-10,
                          7.74627822481071497e-13};
  return Polynomial(z, c);
}

// erf(x) / x with z = x**2, for |x| <= 0.75.
OPWRIGHT_FUNCTOR float ErfNearZero(float z) {
  constexpr float c[] = {1.12837917f,    -0.376126195f,  0.112833865f,
                         -0.0268351146f, 0.00511533211f, -0.000675647957f};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double ErfNearZero(double z) {
  constexpr double c[] = {1.1283791670955125,      -0.376126389031812261,
                          0.112837916708067371,    -0.0268661706112878118,
                          0.00522397723295247516,  -0.000854830083206943176,
                          0.000120542660283267304, -0.0000148986228414744597,
                          1.60445238396246665e-6,  -1.27115470898214215e-7};
  return Polynomial(z, c);
}

// (1 + 2 a) e**(a**2) erfc(a) with q = (a - s) / (a + s), s = kErfcScale: smooth on the whole axis.
OPWRIGHT_FUNCTOR float ScaledErfc(float q) {
  constexpr float c[] = {1.27697838f,   -0.0927638267f, -0.166030065f,
                         0.164050577f,  -0.0542274442f, -0.00801391139f,
                         0.0087721202f, 0.00110344173f, -0.00151711185f};
  return Polynomial(q, c);
}
OPWRIGHT_FUNCTOR double ScaledErfc(double q) {
  constexpr double c[] = {
      1.2329951186255525,      -0.139621116840562374,     0.0153796521026224268,
      0.0680970542546717485,   -0.101039066036490238,     0.093732834999279923,
      -0.0663303658072407833,  0.0371675155183975775,     -0.0161977341251746347,
      0.00503197019460259646,  -0.000757772767864611544,  -0.00019925818254391277,
      0.000150619250110996237, -0.0000243927586919034893, -0.0000112151617509553114,
      5.69187264164805596e-6,  2.82500419260212719e-7,    -7.94695601182596095e-7,
      8.38594585948767292e-8,  7.9637287401426019e-8,     -1.92880833950024759e-8};
  return Polynomial(q, c);
}

template <typename T>
OPWRIGHT_FUNCTOR T AbsoluteValue(T x) {
  using Bits = typename Format<T>::Bits;
  return BitCast<T>(Bits(BitCast<Bits>(x) & (Bits(-1) >> 1)));
}

template <typename T>
OPWRIGHT_FUNCTOR T WithSignOf(T magnitude, T sign) {
  using Bits = typename Format<T>::Bits;
  return BitCast<T>(Bits(BitCast<Bits>(magnitude) | (BitCast<Bits>(sign) & ~(Bits(-1) >> 1))));
}

// Splits u = 2**exponent * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for normal u > 0.
template <typename T>
struct Mantissa {
  T f;
  T exponent;
};

template <typename T>
OPWRIGHT_FUNCTOR Mantissa<T> TakeExponent(T u) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  constexpr Bits kFraction = (Bits(1) << F::kMantissaBits) - 1;
  const Bits bits = BitCast<Bits>(u) - F::kSqrtHalf;
  const T f = BitCast<T>(Bits((bits & kFraction) + F::kSqrtHalf)) - T(1);
  if constexpr (sizeof(T) == sizeof(float)) {
    return {f, static_cast<T>(BitCast<int32_t>(bits) >> F::kMantissaBits)};
  } else {  // older instruction sets have no vector conversion for this
    constexpr Bits kOne = F::kBias << F::kMantissaBits;
    const T raised = BitCast<T>(Bits(((bits + kOne) >> F::kMantissaBits) | F::kUnitBits));
    return {f, raised - (BitCast<T>(F::kUnitBits) + T(F::kBias))};
  }
}

// ln(1 + f) - f + lost for sqrt(1/2) <= 1 + f < sqrt(2).
OPWRIGHT_FUNCTOR float LogBend(float f, float lost) {
  const float square = f * f;
  return LogTail(f) * (square * f) - (square * 0.5f - lost);
}
// In double, a quotient replaces half of the polynomial, as in FreeBSD's msun.
OPWRIGHT_FUNCTOR double LogBend(double f, double lost) {
  const double half_square = 0.5 * f * f;
  const double s = f / (2.0 + f);
  const double z = s * s;
  return s * (half_square + z * LogQuotientTail(z)) + lost - half_square;
}

// ln(u) + lost + exponent_offset * ln(2) for u > 0 and a `lost` far below u's last bit.
template <typename T>
OPWRIGHT_FUNCTOR T LogOfSum(T u, T lost, T exponent_offset) {
  using F = Format<T>;
  const Mantissa<T> m = TakeExponent(u);
  const T exponent = m.exponent + exponent_offset;
  const T bend = LogBend(m.f, exponent * F::kLn2Low + lost);
  return bend + m.f + exponent * F::kLn2High;
}

// Returns -inf at 0, NaN below 0, infinity and NaN unchanged, and otherwise `value`.
template <typename T>
OPWRIGHT_FUNCTOR T WithLogEnds(T x, T value) {
  const T finite = x < T(__builtin_inf()) ? value : x;
  const T undefined = x == T(0) ? T(-__builtin_inf()) : T(__builtin_nan(""));
  return x > T(0) ? finite : undefined;
}

}  // namespace detail
}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_PARTS_H_
