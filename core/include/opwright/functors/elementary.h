// Elementary functions without branches, so that loops over them are vectorised for whatever
// instruction set they are compiled for.
//
//   Exp Log Log1p Sqrt             within 1.1 ulp of the exact value (Sqrt rounds correctly)
//   Expm1                          within 2.2 ulp
//   Tanh Sigmoid                   within 3 ulp
//   Erf                            within 3.5 ulp
//   Erfc                           within 5 ulp
//
// for float and double; the bounds are those of tests/native/test_functors.cc, with and without
// fused multiply-add. Denormal arguments and results are kept, NaN gives NaN, infinite ones the
// limit. The polynomials are interpolations at Chebyshev's nodes: their own error is below a
// seventh of an ulp. Only -fno-trapping-math and -fno-math-errno may be given; reassociation
// (-ffast-math) would remove the roundings that the argument reductions are made of.
//
// NVRTC compiles this file, too; there the names stand for the device's own functions, whose
// bounds are CUDA's.
#ifndef OPWRIGHT_FUNCTORS_ELEMENTARY_H_
#define OPWRIGHT_FUNCTORS_ELEMENTARY_H_

#if defined(__CUDACC_RTC__)

#define OPWRIGHT_FUNCTOR __device__ __forceinline__

namespace opwright {
namespace functors {

#define OPWRIGHT_DEVICE_FUNCTION_(name, of_float, of_double)   \
  OPWRIGHT_FUNCTOR float name(float x) { return of_float(x); } \
  OPWRIGHT_FUNCTOR double name(double x) { return of_double(x); }
OPWRIGHT_DEVICE_FUNCTION_(Exp, ::expf, ::exp)
OPWRIGHT_DEVICE_FUNCTION_(Expm1, ::expm1f, ::expm1)
OPWRIGHT_DEVICE_FUNCTION_(Log, ::logf, ::log)
OPWRIGHT_DEVICE_FUNCTION_(Log1p, ::log1pf, ::log1p)
OPWRIGHT_DEVICE_FUNCTION_(Sqrt, ::sqrtf, ::sqrt)
OPWRIGHT_DEVICE_FUNCTION_(Tanh, ::tanhf, ::tanh)
OPWRIGHT_DEVICE_FUNCTION_(Erf, ::erff, ::erf)
OPWRIGHT_DEVICE_FUNCTION_(Erfc, ::erfcf, ::erfc)
#undef OPWRIGHT_DEVICE_FUNCTION_

// e**x / (1 + e**x) keeps its relative accuracy in the left tail; at the bound the quotient is 1
// in either type, and the power is still finite.
template <typename T>
OPWRIGHT_FUNCTOR T Sigmoid(T x) {
  const T power = Exp(x > T(40) ? T(40) : x);
  return power / (T(1) + power);
}

}  // namespace functors
}  // namespace opwright

#else

#include <cstdint>

// Always inlined: a copy that the compiler kept apart would be one for the oldest instruction set.
#define OPWRIGHT_FUNCTOR inline __attribute__((always_inline))

namespace opwright {
namespace functors {
namespace detail {

template <typename T>
struct Format;

// What the arithmetic must know of IEEE's binary32.
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kBias = 127;
  static constexpr Bits kSqrtHalf = 0x3f3504f3u;
  static constexpr Bits kUnitBits = 0x4b000000u;  // of 2**kMantissaBits
  static constexpr float kRound = 12582912.0f;    // 1.5 * 2**kMantissaBits
  static constexpr float kLeastNormal = 1.17549435e-38f;
  static constexpr Bits kHighHalf = 0xfffff000u;         // what squares without rounding
  static constexpr float kLn2High = 0.693145751953125f;  // 15 bits: times an exponent is exact
  static constexpr float kLn2Low = 1.42860682030941e-06f;
  static constexpr float kLeastExp = -104.0f;  // below, e**x rounds to 0
  static constexpr float kMostExp = 89.0f;     // above, it is infinite
  static constexpr float kLeastExpm1 = -20.0f;
  static constexpr float kOneTanh = 10.0f;  // above, 1 in this type
  static constexpr float kErfcEnd = 10.5f;  // above, erfc rounds to 0
  static constexpr float kErfcScale = 2.0f;
};

// And of binary64.
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

// c[0] + c[1] x + ...: even and odd powers apart, which halves the chain of operations that wait
// for each other, and short vectors are all waiting.
template <typename T, int N>
OPWRIGHT_FUNCTOR T Polynomial(T x, const T (&c)[N]) {
  constexpr int kLastEven = (N - 1) / 2 * 2;
  constexpr int kLastOdd = (N - 2) / 2 * 2 + 1;
  const T square = x * x;
  T even = c[kLastEven];
  T odd = c[kLastOdd];
#pragma GCC unroll 16
  for (int i = kLastEven - 2; i >= 0; i -= 2) even = even * square + c[i];
#pragma GCC unroll 16
  for (int i = kLastOdd - 2; i >= 1; i -= 2) odd = odd * square + c[i];
  return odd * x + even;
}

// x = exponent * ln(2) + rest, |rest| <= ln(2) / 2. The exponent's two's complement is `bits`.
template <typename T>
struct Reduced {
  T rest;
  typename Format<T>::Bits bits;
};

// Adding 1.5 * 2**m rounds to the nearest whole number, which then are the sum's low bits: no
// conversion, which older instruction sets lack for vectors of double.
template <typename T>
OPWRIGHT_FUNCTOR Reduced<T> ReduceByLn2(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const T shifted = x * T(1.4426950408889634074) + F::kRound;
  const T exponent = shifted - F::kRound;
  const T rest = (x - exponent * F::kLn2High) - exponent * F::kLn2Low;
  return {rest, Bits(BitCast<Bits>(shifted) - BitCast<Bits>(F::kRound))};
}

// 2**exponent as two factors, since 2**1024 and 2**-1074 are no normal numbers; multiplied one
// after the other they round once, into denormals or infinity.
template <typename T>
struct PowerOfTwo {
  T first;
  T second;
};

template <typename T>
OPWRIGHT_FUNCTOR PowerOfTwo<T> MakePowerOfTwo(typename Format<T>::Bits exponent) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  // Logical shifts of what was made positive: there are no arithmetic ones for 64 bits in AVX2.
  const Bits half = ((exponent + 2 * (F::kBias + 1)) >> 1) - (F::kBias + 1);
  return {BitCast<T>(Bits((half + F::kBias) << F::kMantissaBits)),
          BitCast<T>(Bits((exponent - half + F::kBias) << F::kMantissaBits))};
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

// ln((1 + s) / (1 - s)) = s * (2 + z * LogTail(z)) with z = s**2, for |s| <= 0.172.
OPWRIGHT_FUNCTOR float LogTail(float z) {
  constexpr float c[] = {0.666666666f, 0.400001239f, 0.28550587f, 0.23336811f};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double LogTail(double z) {
  constexpr double c[] = {0.666666666666666981, 0.399999999998960705, 0.285714286275287956,
                          0.222222108819329271, 0.181829074976712178, 0.153311125879601676,
                          0.146239566082118787};
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

// Comparisons that are false for NaN pass it on as x.
template <typename T>
OPWRIGHT_FUNCTOR T Clamp(T x, T low, T high) {
  const T bounded = x > high ? high : x;
  return bounded < low ? low : bounded;
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

// ln(u + lost) for u > 0 and a `lost` below u's last bit: the exponent and atanh's series of the
// mantissa, as in FreeBSD's msun.
template <typename T>
OPWRIGHT_FUNCTOR T LogOfSum(T u, T lost, T exponent_offset) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  constexpr Bits kOne = F::kBias << F::kMantissaBits;
  constexpr Bits kMantissa = (Bits(1) << F::kMantissaBits) - 1;
  const Bits bits = BitCast<Bits>(u) + (kOne - F::kSqrtHalf);
  const T raised = BitCast<T>(Bits((bits >> F::kMantissaBits) | F::kUnitBits));
  const T exponent = (raised - BitCast<T>(F::kUnitBits)) - (T(F::kBias) + exponent_offset);
  const T f = BitCast<T>(Bits((bits & kMantissa) + F::kSqrtHalf)) - T(1);
  const T half_square = T(0.5) * f * f;
  const T s = f / (T(2) + f);
  const T z = s * s;
  const T correction = s * (half_square + z * LogTail(z)) + (exponent * F::kLn2Low + lost / u);
  return (correction - half_square) + f + exponent * F::kLn2High;
}

// -inf at 0, NaN below, and infinity and NaN as they are; `value` elsewhere.
template <typename T>
OPWRIGHT_FUNCTOR T WithLogEnds(T x, T value) {
  const T finite = x < T(__builtin_inf()) ? value : x;
  const T defined = x < T(0) ? T(__builtin_nan("")) : finite;
  return x == T(0) ? T(-__builtin_inf()) : defined;
}

}  // namespace detail

template <typename T>
OPWRIGHT_FUNCTOR T Sqrt(T x) {
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_sqrtf(x);
  return static_cast<T>(__builtin_sqrt(x));
}

template <typename T>
OPWRIGHT_FUNCTOR T Exp(T x) {
  using F = detail::Format<T>;
  const detail::Reduced<T> r = detail::ReduceByLn2(detail::Clamp(x, F::kLeastExp, F::kMostExp));
  const detail::PowerOfTwo<T> power = detail::MakePowerOfTwo<T>(r.bits);
  const T above_one = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  return (above_one * power.first + power.first) * power.second;
}

// e**x - 1 = 2**n * (e**r - 1 + (1 - 2**-n)).
template <typename T>
OPWRIGHT_FUNCTOR T Expm1(T x) {
  using F = detail::Format<T>;
  const detail::Reduced<T> r = detail::ReduceByLn2(detail::Clamp(x, F::kLeastExpm1, F::kMostExp));
  const detail::PowerOfTwo<T> power = detail::MakePowerOfTwo<T>(r.bits);
  const detail::PowerOfTwo<T> inverse = detail::MakePowerOfTwo<T>(typename F::Bits(0) - r.bits);
  const T mantissa = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  const T result =
      (mantissa + (T(1) - inverse.first * inverse.second)) * power.first * power.second;
  return x == T(0) ? x : result;  // keeps the sign of 0
}

template <typename T>
OPWRIGHT_FUNCTOR T Log(T x) {
  using F = detail::Format<T>;
  constexpr T kRaise = T(int64_t(1) << (F::kMantissaBits + 2));
  const bool denormal = x < F::kLeastNormal;
  const T normal = denormal ? x * kRaise : x;
  const T offset = denormal ? T(F::kMantissaBits + 2) : T(0);
  return detail::WithLogEnds(x, detail::LogOfSum(normal, T(0), offset));
}

template <typename T>
OPWRIGHT_FUNCTOR T Log1p(T x) {
  const T u = T(1) + x;
  const T lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  const T result = detail::WithLogEnds(u, detail::LogOfSum(u, lost, T(0)));
  return x == T(0) ? x : result;
}

// (e**2a - 1) / (e**2a + 1) of a = |x|: no difference of near numbers anywhere.
template <typename T>
OPWRIGHT_FUNCTOR T Tanh(T x) {
  const T a = detail::AbsoluteValue(x);
  const T bounded = a > detail::Format<T>::kOneTanh ? detail::Format<T>::kOneTanh : a;
  const detail::Reduced<T> r = detail::ReduceByLn2(bounded + bounded);
  const detail::PowerOfTwo<T> power = detail::MakePowerOfTwo<T>(r.bits);
  const T scale = power.first * power.second;
  const T expm1 = (r.rest * r.rest * detail::ExpTail(r.rest) + r.rest) * scale + (scale - T(1));
  return detail::WithSignOf(expm1 / (expm1 + T(2)), x);
}

// e**x / (1 + e**x) = p / (p + 2**-n) with e**x = 2**n * p keeps its relative accuracy in the left
// tail. Both sides are scaled by 2**-shift, so that neither 2**-n overflows nor the result's
// denormals are lost; from 40 on it is 1 in either type.
template <typename T>
OPWRIGHT_FUNCTOR T Sigmoid(T x) {
  using F = detail::Format<T>;
  using Bits = typename F::Bits;
  constexpr Bits kShift = (F::kBias + 1) / 2;
  const T scale = detail::BitCast<T>(Bits((F::kBias - kShift) << F::kMantissaBits));
  const detail::Reduced<T> r = detail::ReduceByLn2(detail::Clamp(x, F::kLeastExp, T(40)));
  const T inverse = detail::BitCast<T>(Bits((F::kBias - kShift - r.bits) << F::kMantissaBits));
  const T above_one = r.rest * r.rest * detail::ExpTail(r.rest) + r.rest;
  const T power = above_one * scale + scale;
  return power / (power + inverse);
}

namespace detail {

// erfc(a) for a >= 0.75. e**(-a**2) needs the square to more digits than the type has.
template <typename T>
OPWRIGHT_FUNCTOR T ErfcTail(T a) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const T bounded = a > F::kErfcEnd ? F::kErfcEnd : a;
  const T high = BitCast<T>(Bits(BitCast<Bits>(bounded) & F::kHighHalf));
  const T square = bounded * bounded;
  const T lost = (high * high - square) + (bounded - high) * (bounded + high);
  const T power = Exp(-square);
  const T q = (bounded - F::kErfcScale) / (bounded + F::kErfcScale);
  return (power - power * lost) * (ScaledErfc(q) / (T(1) + (bounded + bounded)));
}

}  // namespace detail

template <typename T>
OPWRIGHT_FUNCTOR T Erf(T x) {
  const T a = detail::AbsoluteValue(x);
  const T near = x * detail::ErfNearZero(x * x);
  const T far = detail::WithSignOf(T(1) - detail::ErfcTail(a), x);
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

}  // namespace functors
}  // namespace opwright

#endif  // __CUDACC_RTC__
#endif  // OPWRIGHT_FUNCTORS_ELEMENTARY_H_
