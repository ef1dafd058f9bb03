// How max pooling compares: the first of equal elements wins, and NaN exceeds every number.
#ifndef OPWRIGHT_CPU_POOLING_MAXIMUM_H_
#define OPWRIGHT_CPU_POOLING_MAXIMUM_H_

#include <cstdint>
#include <limits>
#include <opwright/sdk.hpp>

#include "common/clones.h"

namespace opwright_cpu {

// Float and double are compared directly.
template <typename T>
struct Order {
  using Key = T;
  static OPWRIGHT_CPU_INLINE Key Of(T value) { return value; }
  static OPWRIGHT_CPU_INLINE bool IsGreater(Key value, Key kept) {
    return (value > kept) | ((value != value) & (kept == kept));
  }
  static T Least() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
};

// The comparison key of a 16-bit float, computed without a conversion, since its bits without the
// sign are ordered like its magnitude. Both zeros map to 0, and every NaN to the greatest 16-bit
// integer.
template <typename T, int16_t kInfinity>
struct OrderOfBits {
  using Key = int16_t;
  static OPWRIGHT_CPU_INLINE Key Of(T value) {
    const auto magnitude = static_cast<int16_t>(value.bits & 0x7fff);
    const auto negative = static_cast<int16_t>(-magnitude);
    const int16_t number = static_cast<int16_t>(value.bits) < 0 ? negative : magnitude;
    return magnitude > kInfinity ? INT16_MAX : number;
  }
  static OPWRIGHT_CPU_INLINE bool IsGreater(Key value, Key kept) { return value > kept; }
  static T Least() { return T{static_cast<uint16_t>(kInfinity | 0x8000)}; }
};
template <>
struct Order<opwright::Float16> : OrderOfBits<opwright::Float16, 0x7c00> {};
template <>
struct Order<opwright::BFloat16> : OrderOfBits<opwright::BFloat16, 0x7f80> {};

// Returns whether `value` replaces the maximum `kept`.
template <typename T>
OPWRIGHT_CPU_INLINE bool IsGreater(T value, T kept) {
  return Order<T>::IsGreater(Order<T>::Of(value), Order<T>::Of(kept));
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_MAXIMUM_H_
