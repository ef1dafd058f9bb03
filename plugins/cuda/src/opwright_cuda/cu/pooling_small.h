// Pooling of 2-d images with small windows known at compile time. All of these kernels are
// memory-bound. Each input is read from memory once, and reread only from the caches. A thread
// processes a strip of vertically adjacent pixels with `n` channels. Therefore,
// - its divisions and all values that depend on its column are computed once per strip,
// - rows or windows that several of its results share are read once,
//   - all its reads are in flight together, without dependencies,
//   - adjacent threads access adjacent memory, as vectors for channels-last images.
// Results are gathered, so every sum has a fixed order. Created by opwright_cuda.kernels.pooling.
#ifndef OPWRIGHT_CUDA_POOLING_SMALL_H_
#define OPWRIGHT_CUDA_POOLING_SMALL_H_

#include "pooling.h"

namespace opwright_cuda {

constexpr int kThreads = 256;

// The size of a window, and the distances between adjacent windows.
template <int rows, int columns, int down, int across>
struct Window {
  static constexpr int kRows = rows;
  static constexpr int kColumns = columns;
  static constexpr int kDown = down;
  static constexpr int kAcross = across;
  // Besides the last window that covers an element, at most kAbove windows above that window and at
  // most kLeft windows to the left of it cover the element.
  static constexpr int kAbove = (rows - 1) / down;
  static constexpr int kLeft = (columns - 1) / across;
};

// Images [n, height, width, channels], split into strips of windows or pixels.
//
// In the kernels `is_single` means one channel, as for channels-first images.
struct Strips {
  PoolAxis h;
  PoolAxis w;
  int32_t n_threads;
  int32_t channels;
  int32_t first_cell;  // in gradients, the cell of the first row of pixels; otherwise 0
  Divider by_vectors;
  Divider by_columns;
  Divider by_strips;
};

// The work of a thread: elements of one column, with `n` channels starting at `channel`.
template <bool is_single>
struct Strip {
  int32_t image;
  int32_t strip;
  int32_t column;
  int32_t channel;
  int32_t channels;

  // Returns the offset of a position in images with these sizes.
  OW_INLINE int32_t OffsetAt(int32_t row, int32_t column, int32_t n_rows, int32_t n_columns) const {
    const int32_t pixel = (image * n_rows + row) * n_columns + column;
    return is_single ? pixel : pixel * channels + channel;
  }
  OW_INLINE int32_t Channels() const { return is_single ? 1 : channels; }
};

template <bool is_single, int n>
OW_INLINE Strip<is_single> StripAt(int64_t number, const Strips& p) {
  const auto whole = static_cast<uint32_t>(number);
  const uint32_t place = is_single ? whole : QuotientOf(whole, p.by_vectors);
  const uint32_t row = QuotientOf(place, p.by_columns);
  const uint32_t image = QuotientOf(row, p.by_strips);
  return {static_cast<int32_t>(image), static_cast<int32_t>(row - image * p.by_strips.divisor),
          static_cast<int32_t>(place - row * p.by_columns.divisor),
          static_cast<int32_t>(whole - place * p.by_vectors.divisor) * n, p.channels};
}

OW_INLINE bool IsIn(int32_t i, int32_t size) {
  return static_cast<uint32_t>(i) < static_cast<uint32_t>(size);
}

// Returns i clamped to [0, size).
OW_INLINE int32_t Nearest(int32_t i, int32_t size) { return min(max(i, 0), size - 1); }

template <int n, typename T>
OW_INLINE Vector<T, n> ReadVector(const T* place) {
  return *reinterpret_cast<const Vector<T, n>*>(place);
}

// Writes `n` values, in vectors of at most 16 bytes.
template <typename T, int n>
OW_INLINE void WriteValues(T* place, const Vector<T, n>& values) {
  constexpr int kMost = 16 / sizeof(T) < n ? 16 / sizeof(T) : n;
#pragma unroll
  for (int begin = 0; begin < n; begin += kMost) {
    Vector<T, kMost> part;
#pragma unroll
    for (int c = 0; c < kMost; ++c) part.at[c] = values.at[begin + c];
    StoreWhole(reinterpret_cast<Vector<T, kMost>*>(place + begin), part);
  }
}

template <typename T, int n, typename Value>
OW_INLINE void WriteRounded(T* place, const Value (&values)[n]) {
  Vector<T, n> rounded;
#pragma unroll
  for (int c = 0; c < n; ++c) rounded.at[c] = Store<T>(values[c]);
  WriteValues(place, rounded);
}

// Returns an approximation of 1 / x; x must be neither very small nor very large.
template <typename T>
OW_INLINE T InverseOf(T x) {
  return T(1) / x;
}
#if defined(__CUDACC_RTC__)
template <>
OW_INLINE float InverseOf(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}
#endif

// An integer divisor of sums. Division has branches for extreme values, which do not occur here;
// the branches would serialize reads. Instead, x is multiplied by the inverse, and the product is
// corrected by the remainder. Double uses division.
template <typename T>
struct Count {
  T count;
  T inverse;
  explicit OW_INLINE Count(int32_t n) : count(static_cast<T>(n)), inverse(InverseOf(count)) {}

  OW_INLINE T Divide(T x) const {
    if constexpr (sizeof(T) == 8) return x / count;
    const T quotient = x * inverse;
    const T exact = fma(fma(-quotient, count, x), inverse, quotient);
    return exact == exact ? exact : quotient;  // infinity has no remainder
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_POOLING_SMALL_H_
