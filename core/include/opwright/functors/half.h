// Conversion of 16-bit floats to and from float by bit manipulation, rounding to nearest even,
// without branches, so loops are vectorized on processors without conversion instructions. As with
// these instructions, a float16 NaN is quiet and keeps the high bits of the payload.
#ifndef OPWRIGHT_FUNCTORS_HALF_H_
#define OPWRIGHT_FUNCTORS_HALF_H_

#include <cstdint>
#include <cstring>

#include "opwright/functors/elementary.h"

namespace opwright {
namespace functors {

OPWRIGHT_FUNCTOR float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

OPWRIGHT_FUNCTOR uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

OPWRIGHT_FUNCTOR float FloatOfBFloat16(uint16_t bits) {
  return FloatOfBits(static_cast<uint32_t>(bits) << 16);
}

OPWRIGHT_FUNCTOR uint16_t BFloat16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  return static_cast<uint16_t>(value != value ? nan : rounded);
}

OPWRIGHT_FUNCTOR float FloatOfFloat16(uint16_t half) {
  constexpr uint32_t kExponents = 0x7c00u << 13;
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t shifted = (static_cast<uint32_t>(half) & 0x7fffu) << 13;
  const uint32_t exponent = shifted & kExponents;
  const uint32_t normal = shifted + kRebias;
  const uint32_t special = shifted + 2 * kRebias;  // infinity and NaN have the highest exponent
  // A denormal is its mantissa placed above 2**-14, minus 2**-14; the subtraction normalizes it.
  const float tiny = FloatOfBits(shifted + kRebias + (1u << 23)) - FloatOfBits(113u << 23);
  const uint32_t finite = exponent == 0 ? BitsOfFloat(tiny) : normal;
  const uint32_t quiet = shifted > kExponents ? special | 0x400000u : special;
  const uint32_t magnitude = exponent == kExponents ? quiet : finite;
  return FloatOfBits(magnitude | (static_cast<uint32_t>(half) & 0x8000u) << 16);
}

OPWRIGHT_FUNCTOR uint16_t Float16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t magnitude = bits ^ sign;
  // Below 2**-14, adding 0.5 leaves the rounded mantissa of the result in the low bits.
  const uint32_t tiny = BitsOfFloat(FloatOfBits(magnitude) + 0.5f) - BitsOfFloat(0.5f);
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  const uint32_t finite = magnitude < (113u << 23) ? tiny : normal;
  // From 65520 on, halfway to the next power of two, numbers round to infinity; NaN stays NaN.
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  const uint32_t high = magnitude > 0x7f800000u ? nan : 0x7c00u;
  const uint32_t result = magnitude >= 0x477ff000u ? high : finite;
  return static_cast<uint16_t>(result | (sign >> 16));
}

// Rounds only once; a double that is converted to float first might be rounded twice, to a wrong
// result. Rounding to odd records in the float's last bit that the conversion was inexact.
OPWRIGHT_FUNCTOR uint16_t Float16OfDouble(double value) {
  const float nearest = static_cast<float>(value);
  const uint32_t bits = BitsOfFloat(nearest);
  const double back = static_cast<double>(nearest);
  const double size = value < 0 ? -value : value;
  const double back_size = back < 0 ? -back : back;
  const bool inexact = (back != value) & (value == value) & ((bits & 1u) == 0);
  // The nearest float is even, so the odd float is on the other side of the exact value.
  const uint32_t odd = back_size > size ? bits - 1u : bits + 1u;
  return Float16OfFloat(FloatOfBits(inexact ? odd : bits));
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_HALF_H_
