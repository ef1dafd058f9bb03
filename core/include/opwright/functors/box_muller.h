// Computes two standard normal numbers from two random words, with the same operations in the same
// order as numerics/box_muller.py in opwright-std. If compiled without contraction
// (-ffp-contract=off, -fmad=false), results are bitwise identical on all devices.
//
// NVRTC needs the integer types of <cstdint> to be defined.
#ifndef OPWRIGHT_FUNCTORS_BOX_MULLER_H_
#define OPWRIGHT_FUNCTORS_BOX_MULLER_H_

#if !defined(__CUDACC_RTC__)
#include <cstdint>
#include <cstring>
#endif

#include "opwright/functors/elementary.h"

namespace opwright {
namespace functors {

template <typename T>
struct NormalPair {
  T first;
  T second;
};

// Constants of the formats float32 and float64.
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

  // Converts the whole word and rounds as NumPy does: the sum of two exact halves is rounded once.
  static OPWRIGHT_FUNCTOR float Number(Word a) {
    const auto high = static_cast<float>(static_cast<Int>(a >> 16)) * 65536.0f;
    return high + static_cast<float>(static_cast<Int>(a & 0xFFFF));
  }
  static OPWRIGHT_FUNCTOR float Fraction(Word b) {
    return static_cast<float>(static_cast<Int>(b & 0x3FFFFFFF) - (1 << 29));
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

  static OPWRIGHT_FUNCTOR double Number(Word a) {
    return static_cast<double>(static_cast<Int>(a >> 11));
  }
  static OPWRIGHT_FUNCTOR double Fraction(Word b) {
    return static_cast<double>(static_cast<Int>(b >> 9 & ((Word{1} << 53) - 1)) - (Int{1} << 52));
  }
};

// The words a and b of pair j.
template <typename T>
struct WordPair {
  typename BoxMullerFormat<T>::Word a;
  typename BoxMullerFormat<T>::Word b;

  static OPWRIGHT_FUNCTOR WordPair Read(const uint32_t* words, int64_t j) {
    if constexpr (sizeof(T) == 4) {
      return WordPair{words[2 * j], words[2 * j + 1]};
    } else {
      return WordPair{static_cast<uint64_t>(words[4 * j + 1]) << 32 | words[4 * j],
                      static_cast<uint64_t>(words[4 * j + 3]) << 32 | words[4 * j + 2]};
    }
  }
};

// Coefficients of the series, each a double that is rounded to T.
struct LogSeries {
  static OPWRIGHT_FUNCTOR constexpr double At(int k) { return 1.0 / (2 * k + 1); }
};
struct SineSeries {
  static OPWRIGHT_FUNCTOR constexpr double At(int k) {
    double factorial = 1;
    for (int i = 2; i <= 2 * k + 1; ++i) factorial *= i;
    return (k % 2 == 0 ? 1 : -1) / factorial;
  }
};
struct CosineSeries {
  static OPWRIGHT_FUNCTOR constexpr double At(int k) {
    double factorial = 1;
    for (int i = 2; i <= 2 * k; ++i) factorial *= i;
    return (k % 2 == 0 ? 1 : -1) / factorial;
  }
};

template <typename Series, typename T, int kFirst, int kTerms>
OPWRIGHT_FUNCTOR T Horner(T z) {
  constexpr T kCoefficient = static_cast<T>(Series::At(kFirst));
  if constexpr (kFirst + 1 == kTerms) {
    return kCoefficient;
  } else {
    return Horner<Series, T, kFirst + 1, kTerms>(z) * z + kCoefficient;
  }
}

// Returns ln u for u in (0, 1].
template <typename T>
OPWRIGHT_FUNCTOR T LogOfUniform(T u) {
  using Format = BoxMullerFormat<T>;
  using Int = typename Format::Int;
  Int bits;
  memcpy(&bits, &u, sizeof(T));
  Int exponent = (bits >> Format::kMantissaBits) - Format::kBias;
  bits = (bits & Format::kMantissa) | Format::kHalf;
  T mantissa;
  memcpy(&mantissa, &bits, sizeof(T));
  const bool small = mantissa < static_cast<T>(0.70710678118654752440);
  mantissa = small ? mantissa * 2 : mantissa;
  exponent = small ? exponent - 1 : exponent;
  const T s = (mantissa - 1) / (mantissa + 1);
  const T series = Horner<LogSeries, T, 0, Format::kLogTerms>(s * s);
  return static_cast<T>(exponent) * static_cast<T>(0.69314718055994530942) + 2 * s * series;
}

// Returns the two numbers of a pair of words.
template <typename T>
OPWRIGHT_FUNCTOR NormalPair<T> BoxMuller(WordPair<T> words) {
  using Format = BoxMullerFormat<T>;
  const T u = (Format::Number(words.a) + static_cast<T>(0.5)) * Format::kUniform;
  const T radius = Sqrt(-2 * LogOfUniform(u));
  const T t = Format::Fraction(words.b) * Format::kTurn * static_cast<T>(0.78539816339744830962);
  const T z = t * t;
  const T sine = t * Horner<SineSeries, T, 0, Format::kTrigTerms>(z);
  const T cosine = Horner<CosineSeries, T, 0, Format::kTrigTerms>(z);
  const auto quarter = static_cast<int>(words.b >> (8 * sizeof(T) - 2));
  const T first = (quarter & 1) != 0 ? sine : cosine;
  const T second = (quarter & 1) != 0 ? cosine : sine;
  return NormalPair<T>{radius * (quarter == 1 || quarter == 2 ? -first : first),
                       radius * (quarter >= 2 ? -second : second)};
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_BOX_MULLER_H_
