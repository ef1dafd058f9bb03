// Windows along one spatial axis of images, with their elements and their divisors for means.
// Created by opwright_cuda.kernels.pooling.
#ifndef OPWRIGHT_CUDA_POOLING_H_
#define OPWRIGHT_CUDA_POOLING_H_

#include "kernel.h"

namespace opwright_cuda {

// One spatial axis. Window i covers `kernel` elements, `dilation` apart, starting at
// i * stride - before. If kernel is 0, the axis is divided into `n_windows` bins, which overlap if
// they do not divide it evenly.
struct PoolAxis {
  int32_t size;
  int32_t n_windows;
  int32_t kernel;
  int32_t stride;
  int32_t before;
  int32_t after;
  int32_t counts_padding;
  int32_t dilation;
  Divider by_size;
  Divider by_windows;
};

// The range [begin, end).
struct Span {
  int32_t begin;
  int32_t end;
};

OW_INLINE int32_t CeilOfQuotient(int64_t x, int64_t by) {
  return static_cast<int32_t>((x + by - 1) / by);
}

// Returns the elements that an undilated window covers, without padding, and its divisor along this
// axis.
OW_INLINE Span SlidingWindowAt(int32_t i, const PoolAxis& axis) {
  const int32_t begin = i * axis.stride - axis.before;
  return {max(begin, 0), min(begin + axis.kernel, axis.size)};
}
OW_INLINE int32_t CountOfSliding(int32_t i, const PoolAxis& axis) {
  const int32_t begin = i * axis.stride - axis.before;
  // Elements beyond the padding are not counted.
  if (axis.counts_padding) return min(begin + axis.kernel, axis.size + axis.after) - begin;
  const Span span = SlidingWindowAt(i, axis);
  return span.end - span.begin;
}

// Returns the range of a dilated window, including padding if `with_padding` is true.
OW_INLINE Span DilatedWindowAt(int32_t i, const PoolAxis& axis, bool with_padding) {
  const int32_t begin = i * axis.stride - axis.before;
  const int32_t end = begin + (axis.kernel - 1) * axis.dilation + 1;
  if (with_padding) return {begin, min(end, axis.size + axis.after)};
  const int32_t first =
      begin < 0 ? (axis.dilation - -begin % axis.dilation) % axis.dilation : begin;
  return {first, min(end, axis.size)};
}

// Returns the range of any window or bin, which covers every `dilation`-th element of the range.
OW_INLINE Span WindowAt(int32_t i, const PoolAxis& axis) {
  if (axis.dilation != 1) return DilatedWindowAt(i, axis, false);
  if (axis.kernel != 0) return SlidingWindowAt(i, axis);
  return {static_cast<int32_t>(int64_t(i) * axis.size / axis.n_windows),
          CeilOfQuotient((int64_t(i) + 1) * axis.size, axis.n_windows)};
}
OW_INLINE int32_t CountOf(int32_t i, const PoolAxis& axis) {
  if (axis.dilation != 1) {
    const Span span = DilatedWindowAt(i, axis, axis.counts_padding != 0);
    return CeilOfQuotient(span.end - span.begin, axis.dilation);
  }
  if (axis.kernel != 0) return CountOfSliding(i, axis);
  const Span span = WindowAt(i, axis);
  return span.end - span.begin;
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_POOLING_H_
