// Two standard normal numbers out of two random words, by the steps of opwright_std/box_muller.py,
// operation by operation: compiled without contraction the results are the same bit by bit.
#ifndef OPWRIGHT_CUDA_BOX_MULLER_H_
#define OPWRIGHT_CUDA_BOX_MULLER_H_

#include "kernel.h"

namespace opwright_cuda {

#if defined(__CUDACC_RTC__)
OW_INLINE int32_t SignedBits(float x) { return __float_as_int(x); }
OW_INLINE int64_t SignedBits(double x) { return __double_as_longlong(x); }
OW_INLINE float OfSignedBits(int32_t bits) { return __int_as_float(bits); }
OW_INLINE double OfSignedBits(int64_t bits) { return __longlong_as_double(bits); }
#else
OW_INLINE int32_t SignedBits(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof(x));
  return bits;
}
OW_INLINE int64_t SignedBits(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof(x));
  return bits;
}
OW_INLINE float OfSignedBits(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
OW_INLINE double OfSignedBits(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
#endif

// What the formats of float32 and float64 differ in.
template <typename T>
struct BoxMullerFormat;

template <>
struct BoxMullerFormat<float> {
  using Word = uint32_t;
  using Int = int32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Int kHalf = 0x3F000000;  // the exponent of [1/2, 1)
  static constexpr Int kMantissa = 0x007FFFFF;
  static constexpr Int kBias = 126;
  static constexpr int kLogTerms = 5;
  static constexpr int kTrigTerms = 6;
  static constexpr float kUniform = 0x1p-32f;
  static constexpr float kTurn = 0x1p-29f;

  static OW_INLINE float Number(Word a) { return static_cast<float>(a); }
  static OW_INLINE float Fraction(Word b) {
    return static_cast<float>(static_cast<Int>(b & 0x3FFFFFFFu) - (1 << 29));
  }
};

template <>
struct BoxMullerFormat<double> {
  using Word = uint64_t;
  using Int = int64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Int kHalf = 0x3FE0000000000000;
  static constexpr Int kMantissa = 0x000FFFFFFFFFFFFF;
  static constexpr Int kBias = 1022;
  static constexpr int kLogTerms = 11;
  static constexpr int kTrigTerms = 10;
  static constexpr double kUniform = 0x1p-53;
  static constexpr double kTurn = 0x1p-52;

  static OW_INLINE double Number(Word a) { return static_cast<double>(a >> 11); }
  static OW_INLINE double Fraction(Word b) {
    const Int bits = static_cast<Int>(b >> 9 & ((Word{1} << 53) - 1));
    return static_cast<double>(bits - (Int{1} << 52));
  }
};

// Coefficients of the series, each a double that is rounded to T.
struct LogSeries {
  static OW_INLINE constexpr double At(int k) { return 1.0 / (2 * k + 1); }
};
struct SineSeries {
  static OW_INLINE constexpr double At(int k) {
    double factorial = 1;
    for (int i = 2; i <= 2 * k + 1; ++i) factorial *= i;
    return (k % 2 == 0 ? 1 : -1) / factorial;
  }
};
struct CosineSeries {
  static OW_INLINE constexpr double At(int k) {
    double factorial = 1;
    for (int i = 2; i <= 2 * k; ++i) factorial *= i;
    return (k % 2 == 0 ? 1 : -1) / factorial;
  }
};

template <typename Series, typename T, int kFirst, int kTerms>
OW_INLINE T Horner(T z) {
  constexpr T kCoefficient = static_cast<T>(Series::At(kFirst));
  if constexpr (kFirst + 1 == kTerms) {
    return kCoefficient;
  } else {
    return Horner<Series, T, kFirst + 1, kTerms>(z) * z + kCoefficient;
  }
}

// ln u for u in (0, 1].
template <typename T>
OW_INLINE T LogOfUniform(T u) {
  using Format = BoxMullerFormat<T>;
  using Int = typename Format::Int;
  const Int bits = SignedBits(u);
  Int exponent = (bits >> Format::kMantissaBits) - Format::kBias;
  T mantissa = OfSignedBits(static_cast<Int>((bits & Format::kMantissa) | Format::kHalf));
  if (mantissa < static_cast<T>(0.70710678118654752440)) {
    mantissa *= 2;
    exponent -= 1;
  }
  const T s = (mantissa - 1) / (mantissa + 1);
  const T series = Horner<LogSeries, T, 0, Format::kLogTerms>(s * s);
  return static_cast<T>(exponent) * static_cast<T>(0.69314718055994530942) + 2 * s * series;
}

// Writes the two numbers of the words a and b.
template <typename T>
OW_INLINE void BoxMuller(typename BoxMullerFormat<T>::Word a, typename BoxMullerFormat<T>::Word b,
                         T* numbers) {
  using Format = BoxMullerFormat<T>;
  const T u = (Format::Number(a) + static_cast<T>(0.5)) * Format::kUniform;
  const T radius = opwright::functors::Sqrt(-2 * LogOfUniform(u));
  const T t = Format::Fraction(b) * Format::kTurn * static_cast<T>(0.78539816339744830962);
  const T z = t * t;
  const T sine = t * Horner<SineSeries, T, 0, Format::kTrigTerms>(z);
  const T cosine = Horner<CosineSeries, T, 0, Format::kTrigTerms>(z);
  const int quarter = static_cast<int>(b >> (8 * sizeof(T) - 2));
  const T first = (quarter & 1) != 0 ? sine : cosine;
  const T second = (quarter & 1) != 0 ? cosine : sine;
  numbers[0] = radius * (quarter == 1 || quarter == 2 ? -first : first);
  numbers[1] = radius * (quarter >= 2 ? -second : second);
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_BOX_MULLER_H_
