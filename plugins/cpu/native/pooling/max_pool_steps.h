// The innermost loops of max pooling, which update the maxima of windows.
#ifndef OPWRIGHT_CPU_POOLING_MAX_POOL_STEPS_H_
#define OPWRIGHT_CPU_POOLING_MAX_POOL_STEPS_H_

#include <cstdint>
#include <limits>

#include "common/clones.h"
#include "pooling/maximum.h"

namespace opwright_cpu {
namespace {

// Updates the maxima of several windows; the first window reads element `position`. A window
// without a maximum (index -1) accepts any element.
template <typename T, int64_t kStride>
OPWRIGHT_CPU_INLINE void TakeInto(int64_t n, const T* x, int64_t stride, int32_t position, T* best,
                                  int32_t* index) {
  const int64_t step = kStride > 0 ? kStride : stride;
  for (int64_t i = 0; i < n; ++i) {
    const T value = x[i * step];
    const T kept = best[i];
    const bool greater = IsGreater(value, kept) | (index[i] < 0);
    best[i] = greater ? value : kept;
    index[i] = greater ? position + static_cast<int32_t>(i * step) : index[i];
  }
}

// The maximum of one channel so far.
template <typename T>
struct Kept {
  T value;
  typename Order<T>::Key key;
  int32_t at;

  OPWRIGHT_CPU_INLINE Kept(T first, int32_t position)
      : value(first), key(Order<T>::Of(first)), at(position) {}
  OPWRIGHT_CPU_INLINE void Take(T other, int32_t position) {
    const typename Order<T>::Key other_key = Order<T>::Of(other);
    const bool greater = Order<T>::IsGreater(other_key, key);
    value = greater ? other : value;
    key = greater ? other_key : key;
    at = greater ? position : at;
  }
};

// A few pixels of a window, as element offsets and positions.
constexpr int kTaps = 4;
struct Taps {
  int64_t elements[kTaps];
  int32_t positions[kTaps];
  int count = 0;
};

// Updates the maxima of adjacent channels of one window with the pixels of `taps`, or initializes
// the maxima. The loop over channels is vectorized and keeps the maxima in registers. An inner loop
// over taps would prevent both.
template <typename T, bool kFirst>
OPWRIGHT_CPU_INLINE void TakeTaps(int64_t channels, const T* x, const Taps& taps, int32_t shift,
                                  T* __restrict best, int32_t* __restrict index) {
  const T* x0 = x + taps.elements[0];
  const T* x1 = x + taps.elements[1];
  const T* x2 = x + taps.elements[2];
  const T* x3 = x + taps.elements[3];
  const int32_t p0 = taps.positions[0] + shift, p1 = taps.positions[1] + shift;
  const int32_t p2 = taps.positions[2] + shift, p3 = taps.positions[3] + shift;
  for (int64_t c = 0; c < channels; ++c) {
    Kept<T> kept(kFirst ? x0[c] : best[c], kFirst ? p0 : index[c]);
    if constexpr (!kFirst) kept.Take(x0[c], p0);
    kept.Take(x1[c], p1);
    kept.Take(x2[c], p2);
    kept.Take(x3[c], p3);
    best[c] = kept.value;
    index[c] = kept.at;
  }
}

// Updates the maxima of all channels of adjacent windows. If the last channels do not fill a block,
// the last block overlaps its predecessor. The overlap does not change maxima, because an element
// is not greater than itself.
template <typename T, bool kFirst>
OPWRIGHT_CPU_CLONES void TakeWindows(int64_t windows, int64_t pixels, int64_t channels, const T* x,
                                     const Taps& taps, T* best, int32_t* index) {
  constexpr int64_t kBlock = 16;
  for (int64_t j = 0; j < windows; ++j) {
    const auto shift = static_cast<int32_t>(j * pixels);
    if (channels < kBlock) {
      TakeTaps<T, kFirst>(channels, x, taps, shift, best, index);
    }
    for (int64_t c = 0; channels >= kBlock && c < channels; c += kBlock) {
      const int64_t first = c + kBlock <= channels ? c : channels - kBlock;
      TakeTaps<T, kFirst>(kBlock, x + first, taps, shift, best + first, index + first);
    }
    x += pixels * channels;
    best += channels;
    index += channels;
  }
}

// Processes one tap for the windows of a row, which are `stride` elements apart.
template <typename T>
OPWRIGHT_CPU_CLONES void TakeColumns(int64_t n, const T* x, int64_t stride, int32_t position,
                                     T* best, int32_t* index) {
  if (stride == 1) {
    TakeInto<T, 1>(n, x, 1, position, best, index);
  } else if (stride == 2) {
    TakeInto<T, 2>(n, x, 2, position, best, index);
  } else {
    TakeInto<T, 0>(n, x, stride, position, best, index);
  }
}

// Returns the comparison key of the greatest of n > 0 elements, or NaN if an element is NaN.
template <typename T>
OPWRIGHT_CPU_CLONES typename Order<T>::Key GreatestOf(const T* x, int64_t n) {
  using Key = typename Order<T>::Key;
  Key greatest = Order<T>::Of(x[0]);
  int has_nan = 0;
#pragma omp simd reduction(max : greatest) reduction(| : has_nan)
  for (int64_t i = 0; i < n; ++i) {
    const Key key = Order<T>::Of(x[i]);
    greatest = key > greatest ? key : greatest;
    has_nan |= key != key;
  }
  return has_nan != 0 ? std::numeric_limits<Key>::quiet_NaN() : greatest;
}

}  // namespace
}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_MAX_POOL_STEPS_H_
