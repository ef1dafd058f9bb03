// Sums and extrema of one contiguous run; must be inlined into functions with clones.
#ifndef OPWRIGHT_CPU_REDUCTION_BLOCKS_H_
#define OPWRIGHT_CPU_REDUCTION_BLOCKS_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/clones.h"

namespace opwright_cpu {

// Number of elements per block; the elements of a block are summed lane by lane. Blocks of longer
// runs are added pairwise, so the error grows with the logarithm of the length, as in NumPy.
constexpr int64_t kSumBlock = 512;

#define OPWRIGHT_CPU_TERM __attribute__((always_inline))

// Sums term(i) for i in [begin, end).
template <typename T, typename Term>
OPWRIGHT_CPU_INLINE T SumBlock(int64_t begin, int64_t end, const Term& term) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) sum = static_cast<T>(sum + term(i));
  return sum;
}

// Sums term(i) for i in [0, n) pairwise: partial[k] is the sum of 2**k blocks.
template <typename T, typename Term>
OPWRIGHT_CPU_INLINE T SumOver(int64_t n, const Term& term) {
  if (n <= kSumBlock) return SumBlock<T>(0, n, term);
  T partial[64];
  int top = 0;
  for (int64_t begin = 0, block = 0; begin < n; begin += kSumBlock, ++block) {
    T sum = SumBlock<T>(begin, begin + kSumBlock < n ? begin + kSumBlock : n, term);
    for (int64_t done = block; (done & 1) != 0; done >>= 1) {
      sum = static_cast<T>(partial[--top] + sum);
    }
    partial[top++] = sum;
  }
  T sum = partial[--top];
  while (top > 0) sum = static_cast<T>(partial[--top] + sum);
  return sum;
}

template <typename T>
OPWRIGHT_CPU_INLINE T SumOf(const T* x, int64_t n) {
  return SumOver<T>(n, [x](int64_t i) OPWRIGHT_CPU_TERM { return x[i]; });
}

// Returns the largest of n numbers, or -inf (for integers, the least integer) if n is 0. Skips NaN.
template <typename T>
OPWRIGHT_CPU_INLINE T MaxOf(const T* x, int64_t n) {
  T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// The rule for sums. Integers are summed in a different type from the one in which they are stored.
template <typename T>
struct Sum {
  template <typename In>
  static OPWRIGHT_CPU_INLINE T Of(In x) {
    return static_cast<T>(x);
  }
  static OPWRIGHT_CPU_INLINE T Combine(T a, T b) { return static_cast<T>(a + b); }
  template <typename In>
  static OPWRIGHT_CPU_INLINE T Row(const In* x, int64_t n) {
    return SumOver<T>(n, [x](int64_t i) OPWRIGHT_CPU_TERM { return static_cast<T>(x[i]); });
  }
};

template <typename T>
struct Prod {
  template <typename In>
  static OPWRIGHT_CPU_INLINE T Of(In x) {
    return static_cast<T>(x);
  }
  static OPWRIGHT_CPU_INLINE T Combine(T a, T b) { return static_cast<T>(a * b); }
  template <typename In>
  static OPWRIGHT_CPU_INLINE T Row(const In* x, int64_t n) {
    T product = 1;
#pragma omp simd reduction(* : product)
    for (int64_t i = 0; i < n; ++i) product = static_cast<T>(product * static_cast<T>(x[i]));
    return product;
  }
};

// The rule for any and all, which test whether any or all elements are nonzero. NaN is nonzero.
template <bool kAll>
struct Truth {
  template <typename In>
  static OPWRIGHT_CPU_INLINE uint8_t Of(In x) {
    return static_cast<uint8_t>(x != In(0) ? 1 : 0);
  }
  static OPWRIGHT_CPU_INLINE uint8_t Combine(uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(kAll ? a & b : a | b);
  }
  template <typename In>
  static OPWRIGHT_CPU_INLINE uint8_t Row(const In* x, int64_t n) {
    uint8_t any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < n; ++i) {
      any = static_cast<uint8_t>(any | static_cast<uint8_t>((x[i] != In(0)) != kAll));
    }
    return static_cast<uint8_t>((any != 0) != kAll);
  }
};

// The rule for maxima and minima; NaN wins.
template <typename T, bool kMax>
struct Extremum {
  static OPWRIGHT_CPU_INLINE T Of(T x) { return x; }
  static OPWRIGHT_CPU_INLINE bool IsBetter(T x, T than) { return kMax ? x > than : x < than; }

  static OPWRIGHT_CPU_INLINE T Combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T best = IsBetter(a, b) ? a : b;  // a combined condition would not be vectorized
      return a != a ? a : best;
    } else {
      return IsBetter(a, b) ? a : b;
    }
  }

  // Tracking NaN in a separate flag is faster than a comparison that handles NaN.
  static OPWRIGHT_CPU_INLINE T Row(const T* x, int64_t n) {
    if constexpr (!std::is_floating_point_v<T>) return RowOfIntegers(x, n);
    T best = x[0];
    int has_nan = 0;
    if constexpr (kMax) {
#pragma omp simd reduction(max : best) reduction(| : has_nan)
      for (int64_t i = 0; i < n; ++i) {
        best = x[i] > best ? x[i] : best;
        has_nan |= x[i] != x[i];
      }
    } else {
#pragma omp simd reduction(min : best) reduction(| : has_nan)
      for (int64_t i = 0; i < n; ++i) {
        best = x[i] < best ? x[i] : best;
        has_nan |= x[i] != x[i];
      }
    }
    return has_nan != 0 ? std::numeric_limits<T>::quiet_NaN() : best;
  }

  // Integers do not need the flag, which is wider than short integers and would reduce their lanes.

  static OPWRIGHT_CPU_INLINE T RowOfIntegers(const T* x, int64_t n) {
    T best = x[0];
    if constexpr (kMax) {
#pragma omp simd reduction(max : best)
      for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
    } else {
#pragma omp simd reduction(min : best)
      for (int64_t i = 0; i < n; ++i) best = x[i] < best ? x[i] : best;
    }
    return best;
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_BLOCKS_H_
