// Conversion of 8-bit floats to and from float by bit manipulation, rounding to nearest even,
// without branches, so loops are vectorized. Source: Micikevicius et al., "FP8 Formats for
// Deep Learning",
// 2022. e4m3fn has no infinities, and one NaN for each sign.
#ifndef OPWRIGHT_FUNCTORS_FLOAT8_H_
#define OPWRIGHT_FUNCTORS_FLOAT8_H_

#include "opwright/functors/half.h"

namespace opwright {
namespace functors {

struct Float8E4M3FnFormat {
  static constexpr int32_t kMantissa = 3, kLeastExponent = -6;
  static constexpr uint32_t kNan = 0x7f, kOverflow = 0x7f;
  static constexpr uint32_t kLargestBits = 0x43e80000u;  // 464, which is rounded to 448
};

struct Float8E5M2Format {
  static constexpr int32_t kMantissa = 2, kLeastExponent = -14;
  static constexpr uint32_t kNan = 0x7e, kOverflow = 0x7c;
  static constexpr uint32_t kLargestBits = 0x476fffffu;  // just below 61440
};

// Values beyond the range become an infinity, or NaN if the format has none.
template <typename Format>
OPWRIGHT_FUNCTOR uint8_t Float8OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const int32_t own = static_cast<int32_t>(magnitude >> 23) - 127;
  const int32_t exponent = own < Format::kLeastExponent ? Format::kLeastExponent : own;
  // The value is in units of the last place; adding 2**23 leaves the rounded integer in the low
  // bits.
  const uint32_t unit = static_cast<uint32_t>(127 + Format::kMantissa - exponent) << 23;
  const float units = FloatOfBits(magnitude) * FloatOfBits(unit) + 8388608.0f;
  const uint32_t whole = BitsOfFloat(units) - 0x4b000000u;
  const auto steps = static_cast<uint32_t>(exponent - Format::kLeastExponent);
  uint32_t code = (steps << Format::kMantissa) + whole;
  code = magnitude > Format::kLargestBits ? Format::kOverflow : code;
  code = magnitude > 0x7f800000u ? Format::kNan : code;
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80u));
}

template <typename Format>
OPWRIGHT_FUNCTOR float FloatOfFloat8(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t whole = magnitude & ((1u << Format::kMantissa) - 1u);
  const uint32_t steps = magnitude >> Format::kMantissa;
  // A denormal has the exponent of the least normal number, without its leading 1.
  const uint32_t leading = steps == 0 ? 0u : 1u << Format::kMantissa;
  const int32_t exponent =
      Format::kLeastExponent + static_cast<int32_t>(steps == 0 ? 0 : steps - 1);
  const float unit = FloatOfBits(static_cast<uint32_t>(127 + exponent - Format::kMantissa) << 23);
  float value = static_cast<float>(whole + leading) * unit;
  const bool is_infinite = Format::kOverflow != Format::kNan && magnitude == Format::kOverflow;
  const bool is_nan =
      Format::kOverflow == Format::kNan ? magnitude == Format::kNan : magnitude > Format::kOverflow;
  value = is_infinite ? FloatOfBits(0x7f800000u) : value;
  value = is_nan ? FloatOfBits(0x7fc00000u) : value;
  return FloatOfBits(BitsOfFloat(value) | static_cast<uint32_t>(code & 0x80u) << 24);
}

// Rounds a double to float, to odd: if the result is inexact, its last bit is odd, so it can
// be rounded once more without a double-rounding error.
OPWRIGHT_FUNCTOR float OddFloatOfDouble(double value) {
  const auto nearest = static_cast<float>(value);
  const uint32_t bits = BitsOfFloat(nearest);
  const double back = static_cast<double>(nearest);
  const double own = value < 0 ? -value : value;
  const double got = back < 0 ? -back : back;
  const uint32_t below = got > own ? bits - 1u : bits;
  return FloatOfBits(got == own || value != value ? bits : below | 1u);
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_FLOAT8_H_
