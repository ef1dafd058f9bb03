// Combines eight rows in a reduction of columns. Integers and truth values are combined in types
// narrower than the result, so a vector holds more of them and is converted once instead of eight
// times.
#ifndef OPWRIGHT_CPU_REDUCTION_EIGHT_ELEMENTS_H_
#define OPWRIGHT_CPU_REDUCTION_EIGHT_ELEMENTS_H_

#include <cstdint>
#include <type_traits>

#include "common/clones.h"
#include "reduction/blocks.h"

namespace opwright_cpu::reducer {

// An integer type of 32 or 64 bits that has the same signedness as In and is at least twice as
// wide, or `T` if In has 64 bits. 16 bits are not used, since GCC already chooses 16-bit vectors
// where they suffice, and single 16-bit elements would have to be extended again.
template <typename T, typename In>
using TwiceAsWide = std::conditional_t<
    sizeof(In) < 4, std::conditional_t<std::is_signed_v<In>, int32_t, uint32_t>,
    std::conditional_t<sizeof(In) == 4, std::conditional_t<std::is_signed_v<In>, int64_t, uint64_t>,
                       T>>;

// Combines pairs, then pairs of pairs, then both halves. at(i) returns element i of the eight.
template <typename T, typename Rule, typename In, typename = void>
struct EightElements {
  template <typename At>
  static OPWRIGHT_CPU_INLINE T Combine(const At& at) {
    const auto two = [&at](int64_t i) OPWRIGHT_CPU_TERM {
      return Rule::Combine(Rule::Of(at(i)), Rule::Of(at(i + 1)));
    };
    const T first = Rule::Combine(two(0), two(2));
    const T second = Rule::Combine(two(4), two(6));
    return Rule::Combine(first, second);
  }
};

template <typename T, typename In>
using IfWidened = std::enable_if_t<std::is_integral_v<In> && (sizeof(T) > sizeof(In))>;

// Twice as many bits suffice for the sum of eight elements.
template <typename T, typename In>
struct EightElements<T, Sum<T>, In, IfWidened<T, In>> {
  template <typename At>
  static OPWRIGHT_CPU_INLINE T Combine(const At& at) {
    using Wide = TwiceAsWide<T, In>;
    return static_cast<T>(EightElements<Wide, Sum<Wide>, Wide>::Combine(at));
  }
};

// A product of two elements needs twice as many bits, a product of four needs four times as many.
template <typename T, typename In>
struct EightElements<T, Prod<T>, In, IfWidened<T, In>> {
  using Two = TwiceAsWide<T, In>;
  using Four = std::conditional_t<sizeof(In) == 1, Two, TwiceAsWide<T, Two>>;
  using Eight = TwiceAsWide<T, Four>;

  template <typename At>
  static OPWRIGHT_CPU_INLINE T Combine(const At& at) {
    const auto two = [&at](int64_t i) OPWRIGHT_CPU_TERM {
      return Prod<Two>::Combine(static_cast<Two>(at(i)), static_cast<Two>(at(i + 1)));
    };
    const auto four = [&two](int64_t i) OPWRIGHT_CPU_TERM {
      return Prod<Four>::Combine(static_cast<Four>(two(i)), static_cast<Four>(two(i + 2)));
    };
    return static_cast<T>(
        Prod<Eight>::Combine(static_cast<Eight>(four(0)), static_cast<Eight>(four(4))));
  }
};

// Tests for any zero or any nonzero element in integers as wide as an element. For 64-bit elements,
// such a test would not be faster.
template <bool kAll, typename In>
struct EightElements<uint8_t, Truth<kAll>, In, std::enable_if_t<(sizeof(In) < 8)>> {
  using Flag = std::conditional_t<sizeof(In) == 1, uint8_t,
                                  std::conditional_t<sizeof(In) == 2, uint16_t, uint32_t>>;

  static OPWRIGHT_CPU_INLINE Flag FlagOf(In x) {
    if constexpr (!kAll && std::is_integral_v<In>) return static_cast<Flag>(x);
    return static_cast<Flag>((x == In(0)) == kAll ? 1 : 0);
  }

  template <typename At>
  static OPWRIGHT_CPU_INLINE uint8_t Combine(const At& at) {
    const auto two = [&at](int64_t i) OPWRIGHT_CPU_TERM {
      return static_cast<Flag>(FlagOf(at(i)) | FlagOf(at(i + 1)));
    };
    const auto any = static_cast<Flag>((two(0) | two(2)) | (two(4) | two(6)));
    return static_cast<uint8_t>((any != 0) != kAll ? 1 : 0);
  }
};

}  // namespace opwright_cpu::reducer

#endif  // OPWRIGHT_CPU_REDUCTION_EIGHT_ELEMENTS_H_
