// Reductions over the threads of a warp and of a block, by any associative and commutative functor:
//
//   template <typename T>
//   struct Smallest {
//     static OW_INLINE T Identity() { ... }  // changes nothing
//     OW_INLINE T operator()(T x, T y) const { ... }
//   };
//
// The value may be a scalar or a struct. The order of combination depends only on the block size.
#ifndef OPWRIGHT_CUDA_REDUCE_H_
#define OPWRIGHT_CUDA_REDUCE_H_

#include "kernel.h"

namespace opwright_cuda {

constexpr int kWarp = 32;
constexpr int kMaxWarps = 32;  // maximum warps per block

OW_INLINE int LaneIndex() { return static_cast<int>(threadIdx.x) % kWarp; }
OW_INLINE int WarpIndex() { return static_cast<int>(threadIdx.x) / kWarp; }

// ---- Exchange of values between lanes --------------------------------------------------------

// Returns the value of the lane whose index differs in the bits of `lanes`. Structs are exchanged
// word by word.
template <typename T>
OW_INLINE T ShuffleXor(T value, int lanes) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  uint32_t words[kWords] = {};
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_xor_sync(0xffffffffu, words[i], lanes);
  memcpy(&value, words, sizeof(T));
  return value;
}

// ---- Functors -----------------------------------------------------------------------------------

// The maximum and minimum of a numeric type; for floats, these are plus and minus infinity.
template <typename T>
OW_INLINE T Highest() {
  if constexpr (IsFloat<T>::value) {
    return static_cast<T>(FloatOfBits(0x7f800000u));
  } else if constexpr (IsSigned<T>::value) {
    return static_cast<T>(~(uint64_t(1) << (sizeof(T) * 8 - 1)));
  } else {
    return static_cast<T>(~uint64_t(0));
  }
}
template <typename T>
OW_INLINE T Lowest() {
  if constexpr (IsFloat<T>::value) {
    return -Highest<T>();
  } else {
    return static_cast<T>(~static_cast<uint64_t>(Highest<T>()));
  }
}

template <typename T>
struct SumOf {
  static OW_INLINE T Identity() { return T(0); }
  OW_INLINE T operator()(T x, T y) const { return x + y; }
};

// NaN wins, as in numpy.max and numpy.min.
template <typename T>
struct MaxOf {
  static OW_INLINE T Identity() { return Lowest<T>(); }
  OW_INLINE T operator()(T x, T y) const { return opwright::functors::Maximum(x, y); }
};
template <typename T>
struct MinOf {
  static OW_INLINE T Identity() { return Highest<T>(); }
  OW_INLINE T operator()(T x, T y) const { return opwright::functors::Minimum(x, y); }
};

// Sums of squares that may overflow or underflow.
template <typename T>
struct SquareSumOf {
  static OW_INLINE functors::SquareSum<T> Identity() { return {T(0), T(0), T(0)}; }
  OW_INLINE functors::SquareSum<T> operator()(functors::SquareSum<T> x,
                                              const functors::SquareSum<T>& y) const {
    x.Join(y);
    return x;
  }
};

// A value and its index. The first of equal values wins, and the first NaN wins over all numbers.
// Index -1 means no value.
template <typename T>
struct Indexed {
  T value;
  int64_t index;
};

template <typename T, bool is_largest>
struct BestOf {
  static OW_INLINE Indexed<T> Identity() { return {T(0), -1}; }
  OW_INLINE Indexed<T> operator()(Indexed<T> x, Indexed<T> y) const {
    if (x.index < 0) return y;
    if (y.index < 0) return x;
    const bool x_is_nan = x.value != x.value;
    const bool y_is_nan = y.value != y.value;
    if (x_is_nan != y_is_nan) return x_is_nan ? x : y;
    if (!x_is_nan && x.value != y.value) {
      return (x.value > y.value) == is_largest ? x : y;
    }
    return x.index < y.index ? x : y;
  }
};
template <typename T>
using ArgMaxOf = BestOf<T, true>;
template <typename T>
using ArgMinOf = BestOf<T, false>;

// Returns the ratio of two counts, within two ulp. Unlike a division, this does not branch for
// extreme values; branches would serialize reads.
template <typename T>
OW_INLINE T ShareOf(T part, T all) {
  return part / all;
}
#if defined(__CUDACC_RTC__)
template <>
OW_INLINE float ShareOf(float part, float all) {
  return __fdividef(part, all);
}
#endif

// The mean and the sum of squared deviations of values, without cancellation if the mean is large.
template <typename T>
struct Moments {
  T count;
  T mean;
  T squares;

  // Merges moments by Chan's rule; `share` is the fraction of the total count that is in `others`.
  OW_INLINE void Join(Moments others, T share) {
    const T change = others.mean - mean;
    mean += change * share;
    squares += others.squares + change * (count * share) * change;
    count += others.count;
  }
};

template <typename T>
struct MomentsOf {
  static OW_INLINE Moments<T> Identity() { return {T(0), T(0), T(0)}; }
  OW_INLINE Moments<T> operator()(Moments<T> x, Moments<T> y) const {
    const T count = x.count + y.count;
    if (count != T(0)) x.Join(y, ShareOf(y.count, count));
    return x;
  }
};

// ---- Over threads -------------------------------------------------------------------------------

// Reduces over each group of `width` adjacent lanes, a power of 2. All lanes of the warp must
// participate; each receives the value of its group.
template <int width = kWarp, typename T, typename Function>
OW_INLINE T WarpReduce(T value, Function function) {
#pragma unroll
  for (int lanes = width / 2; lanes > 0; lanes /= 2) {
    value = function(value, ShuffleXor(value, lanes));
  }
  return value;
}

// Reduces over all threads of a one-dimensional block whose size is a multiple of 32. All threads
// must participate, and each receives the value. Another call may follow immediately.
template <typename T, typename Function>
OW_INLINE T BlockReduce(T value, Function function) {
  OW_SHARED(T, partials, kMaxWarps);
  const int n_warps = static_cast<int>(blockDim.x) / kWarp;
  value = WarpReduce(value, function);
  if (n_warps == 1) return value;
  if (LaneIndex() == 0) partials[WarpIndex()] = value;
  __syncthreads();
  value = LaneIndex() < n_warps ? partials[LaneIndex()] : Function::Identity();
  __syncthreads();
  return WarpReduce(value, function);
}

template <typename T>
OW_INLINE T WarpSum(T value) {
  return WarpReduce(value, SumOf<T>());
}
template <typename T>
OW_INLINE T WarpMax(T value) {
  return WarpReduce(value, MaxOf<T>());
}
template <typename T>
OW_INLINE T BlockSum(T value) {
  return BlockReduce(value, SumOf<T>());
}
template <typename T>
OW_INLINE T BlockMax(T value) {
  return BlockReduce(value, MaxOf<T>());
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_REDUCE_H_
