// im2col writes the windows of a convolution to the rows of a matrix [windows, taps]; col2im sums
// them back. Images do not have a depth axis, and fold does not support dilation.
#include "convolution.h"

using namespace opwright_cuda;

constexpr int kWindows = 8;  // windows per block

// A block writes kWindows windows; a thread computes the offset of its tap once for all of them.
template <typename T>
__global__ void unfold(T* columns, const T* x, int32_t n_taps, Convolution c) {
  OW_SHARED(Place, windows, kWindows);
  const Covered<T, false> covered{x, c};
  const int64_t first = int64_t(blockIdx.x) * kWindows;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < kWindows && first + thread < c.n_windows) {
    windows[thread] = covered.OfWindow(first + thread);
  }
  __syncthreads();
  for (int32_t tap = thread; tap < n_taps; tap += static_cast<int32_t>(blockDim.x)) {
    const Place of_tap = covered.OfTap(tap);
    T* const to = columns + first * n_taps + tap;
    Compute<T> values[kWindows];
#pragma unroll
    for (int k = 0; k < kWindows; ++k) {
      if (first + k < c.n_windows) values[k] = covered.At(windows[k], of_tap);
    }
#pragma unroll
    for (int k = 0; k < kWindows; ++k) {
      if (first + k < c.n_windows) to[int64_t(k) * n_taps] = Store<T>(values[k]);
    }
  }
}

constexpr int kFoldSide = 32;  // channels and pixels per block
constexpr int kFoldRows = 8;

// The first and the last window along one axis that cover a position of the padded image.
struct Covering {
  int32_t first;
  int32_t last;

  OW_INLINE Covering(int32_t position, int32_t kernel, int32_t stride, Divider by_stride,
                     int32_t n_windows) {
    const int32_t before = position - kernel + stride;  // rounds the quotient up
    first =
        before < 0 ? 0 : static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(before), by_stride));
    last = min(static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(position), by_stride)),
               n_windows - 1);
  }
};

// Sums the windows that cover each element of x in order. Grid: pixels and channels, by kFoldSide.
// Threads: kFoldSide by kFoldRows. Adjacent threads read adjacent channels and write adjacent
// pixels.
template <typename T>
__global__ void fold(T* x, const T* columns, int32_t n_taps, Convolution c) {
  using Value = Compute<T>;
  OW_SHARED(Value, sums, kFoldSide * (kFoldSide + 1));
  const auto lane = static_cast<int32_t>(threadIdx.x);
  const auto row = static_cast<int32_t>(threadIdx.y);
  const int64_t first_pixel = int64_t(blockIdx.x) * kFoldSide;
  const int32_t first_channel = static_cast<int32_t>(blockIdx.y) * kFoldSide;
  const int32_t kernel = c.kernel_h * c.kernel_w;
  for (int32_t i = row; i < kFoldSide; i += kFoldRows) {
    Value sum = Value(0);
    if (first_pixel + i < c.n_pixels && first_channel + lane < c.channels) {
      const Quadruple at = TakeApart<false>(first_pixel + i, c.pixels);
      const int32_t y = at.middle + c.top;
      const int32_t z = at.last + c.left;
      const Covering down(y, c.kernel_h, c.stride_h, c.by_stride_h, c.out_height);
      const Covering across(z, c.kernel_w, c.stride_w, c.by_stride_w, c.out_width);
      const T* const of_image = columns + int64_t(at.first) * c.out_height * c.out_width * n_taps +
                                int64_t(first_channel + lane) * kernel;
      for (int32_t h = down.first; h <= down.last; ++h) {
        for (int32_t w = across.first; w <= across.last; ++w) {
          const int32_t tap = (y - h * c.stride_h) * c.kernel_w + z - w * c.stride_w;
          sum += Load(of_image[int64_t(h * c.out_width + w) * n_taps + tap]);
        }
      }
    }
    sums[lane * (kFoldSide + 1) + i] = sum;
  }
  __syncthreads();
  const int64_t pixel = first_pixel + lane;
  if (pixel >= c.n_pixels) return;
  const Quadruple at = TakeApart<false>(pixel, c.pixels);
  T* const of_pixel = x + at.first * c.x.image + at.middle * c.x.h + at.last * c.x.w;
  for (int32_t i = row; i < kFoldSide && first_channel + i < c.channels; i += kFoldRows) {
    of_pixel[(first_channel + i) * c.x.channel] = Store<T>(sums[i * (kFoldSide + 1) + lane]);
  }
}
