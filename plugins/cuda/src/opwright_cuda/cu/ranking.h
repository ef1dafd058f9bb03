// Order-preserving integer keys of elements, and sorting in a block.
#ifndef OPWRIGHT_CUDA_RANKING_H_
#define OPWRIGHT_CUDA_RANKING_H_

#include "kernel.h"

namespace opwright_cuda {

template <typename T>
struct RankTraits {
  using Type = uint32_t;
};
template <>
struct RankTraits<double> {
  using Type = uint64_t;
};
template <>
struct RankTraits<int64_t> {
  using Type = uint64_t;
};
template <>
struct RankTraits<uint64_t> {
  using Type = uint64_t;
};
template <typename T>
using Rank = typename RankTraits<Compute<T>>::Type;

// In these keys, NaN is greater than every number, and -0 equals 0.
template <typename T>
OW_INLINE Rank<T> AscendingRank(T given) {
  using R = Rank<T>;
  const Compute<T> x = Load(given);
  constexpr R kSign = R(1) << (sizeof(R) * 8 - 1);
  if constexpr (IsFloat<T>::value) {
    if (x != x) return ~R(0);
    const Compute<T> unsigned_zero = x == 0 ? Compute<T>(0) : x;
    R bits;
    memcpy(&bits, &unsigned_zero, sizeof(bits));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (IsSigned<T>::value) {
    return static_cast<R>(x) ^ kSign;
  } else {
    return static_cast<R>(x);
  }
}

// Returns the rank of an element; the best element has the smallest rank.
template <typename T>
OW_INLINE Rank<T> RankOf(T x, bool largest) {
  const Rank<T> rank = AscendingRank(x);
  return largest ? ~rank : rank;
}

// A rank and a position, so that equal elements keep their order.
template <typename R>
struct Ranked {
  R rank;
  uint32_t place;
};
template <typename R>
OW_INLINE bool IsBefore(const Ranked<R>& a, const Ranked<R>& b) {
  return a.rank < b.rank || (a.rank == b.rank && a.place < b.place);
}
// Returns a key that sorts after every element.
template <typename R>
OW_INLINE Ranked<R> Last() {
  return {~R(0), ~uint32_t(0)};
}

// Sorts `n` items, where `n` is a power of two, by Batcher's bitonic sort.
template <typename R>
OW_INLINE void Sort(Ranked<R>* items, int64_t n) {
  for (int64_t size = 2; size <= n; size *= 2) {
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      for (int64_t pair = threadIdx.x; pair < n / 2; pair += blockDim.x) {
        const int64_t place = pair & (distance - 1);
        const int64_t low = (pair - place) * 2 + place;
        const int64_t high = low + distance;
        const Ranked<R> a = items[low];
        const Ranked<R> b = items[high];
        const bool is_rising = (low & size) == 0;
        if (IsBefore(b, a) == is_rising) {
          items[low] = b;
          items[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_RANKING_H_
