// Functors for conversions and constants.
#ifndef OPWRIGHT_CUDA_CONVERSIONS_H_
#define OPWRIGHT_CUDA_CONVERSIONS_H_

#include "kernel.h"

namespace opwright_cuda {

// The intermediate type of conversions from floats to integers, as on CPUs.
template <typename T>
struct MiddleTraits {
  using Type = int32_t;
};
template <>
struct MiddleTraits<uint32_t> {
  using Type = int64_t;
};
template <>
struct MiddleTraits<int64_t> {
  using Type = int64_t;
};
template <>
struct MiddleTraits<uint64_t> {
  using Type = int64_t;
};

// Rounds toward zero. NaN and numbers out of range become the minimum, as on x86; GPUs would
// saturate.
template <typename Middle, typename From>
OW_INLINE Middle Truncated(From x) {
  constexpr From kEnd = static_cast<From>(uint64_t(1) << (sizeof(Middle) * 8 - 1));
  constexpr auto kLeast =
      static_cast<Middle>(sizeof(Middle) == 4 ? uint64_t(0x80000000) : uint64_t(1) << 63);
  return x > -kEnd - From(1) && x < kEnd ? static_cast<Middle>(x) : kLeast;
}

template <typename To>
struct Cast {
  template <typename From>
  OW_INLINE auto operator()(From x) const {
    if constexpr (IsSame<To, bool>::value) {
      return x != From(0);
    } else if constexpr (IsFloat<From>::value && !IsFloat<To>::value) {
      return FromFloat(x);
    } else {
      return x;  // the store converts it
    }
  }

 private:
  template <typename From>
  OW_INLINE To FromFloat(From x) const {
    using Middle = typename MiddleTraits<To>::Type;
    if constexpr (IsSame<To, uint64_t>::value) {
      constexpr auto kHalf = static_cast<From>(uint64_t(1) << 63);
      const bool is_high = x >= kHalf;
      const auto low = static_cast<uint64_t>(Truncated<int64_t>(is_high ? x - kHalf : x));
      return is_high ? low ^ (uint64_t(1) << 63) : low;
    } else {
      return static_cast<To>(Truncated<Middle>(x));
    }
  }
};

// Returns the same value for every element. T has the size of the dtype.
template <typename T>
struct Constant {
  T value;
  OW_INLINE T operator()() const { return value; }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CONVERSIONS_H_
