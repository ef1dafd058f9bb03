// Convolution as products of matrices that are never written down (implicit GEMM): where a row and
// a step of one are found in an image is computed as tiles.h loads it, 0 outside of the image.
//
//   out:         rows are windows, columns are filters, steps are taps
//   x_grad:      rows are pixels of x, columns are channels, steps are taps of filters
//   weight_grad: rows are filters, columns are taps, steps are windows
//
// Where that makes few tiles, the steps are cut into parts, whose sums are added in a second pass.
//
// A tap is one element of a filter: a channel of the group, a row and a column of the kernel.
#include "tiles.h"

using namespace opwright_cuda;

// Strides of images, in elements.
struct ImageStrides {
  int64_t image;
  int64_t channel;
  int64_t h;
  int64_t w;
};

// Takes a number apart into three digits, the first one unbounded.
struct Digits {
  Divider middle;
  Divider inner;
};

struct Convolution {
  ImageStrides x;
  ImageStrides out;
  int64_t n_windows;
  int64_t n_pixels;
  int32_t channels;  // of a group
  int32_t filters;   // of a group
  int32_t kernel_h;
  int32_t kernel_w;
  int32_t height;  // of x
  int32_t width;
  int32_t out_height;
  int32_t out_width;
  int32_t stride_h;
  int32_t stride_w;
  int32_t top;
  int32_t left;
  int32_t dilation_h;
  int32_t dilation_w;
  int32_t is_channels_last;
  Digits windows;       // image, row, column
  Digits pixels;        // image, row, column
  Digits channel_taps;  // channel, row, column; row, column, channel where channels are last
  Digits filter_taps;   // the same with filters in place of channels
  Divider by_stride_h;
  Divider by_stride_w;
};

struct Triple {
  int32_t first;
  int32_t middle;
  int32_t last;
};

OW_INLINE Triple TakeApart(int64_t number, Digits digits) {
  const auto whole = static_cast<uint32_t>(number);
  const uint32_t upper = QuotientOf(whole, digits.inner);
  const uint32_t first = QuotientOf(upper, digits.middle);
  return {static_cast<int32_t>(first), static_cast<int32_t>(upper - first * digits.middle.divisor),
          static_cast<int32_t>(whole - upper * digits.inner.divisor)};
}

struct Tap {
  int32_t channel;  // or filter
  int32_t h;
  int32_t w;
};

OW_INLINE Tap TapAt(int64_t number, Digits digits, const Convolution& c) {
  const Triple t = TakeApart(number, digits);
  if (c.is_channels_last) return {t.last, t.first, t.middle};
  return {t.first, t.middle, t.last};
}

// Where a window lies in `out`.
OW_INLINE int64_t OffsetOfWindow(int64_t window, const Convolution& c) {
  const Triple at = TakeApart(window, c.windows);
  return at.first * c.out.image + at.middle * c.out.h + at.last * c.out.w;
}

// Of a filter's tap in the weight, whose layout is [filters, channels, rows, columns].
OW_INLINE int64_t OffsetInWeight(int64_t filter, int64_t channel, Tap tap, const Convolution& c) {
  return ((filter * c.channels + channel) * c.kernel_h + tap.h) * c.kernel_w + tap.w;
}

// What windows cover of x.
template <typename T>
struct Covered {
  using Value = Compute<T>;
  const T* x;
  const Convolution& c;

  OW_INLINE Place OfWindow(int64_t window) const {
    const Triple at = TakeApart(window, c.windows);
    return Make(at.first * c.x.image, at.middle * c.stride_h - c.top,
                at.last * c.stride_w - c.left);
  }
  OW_INLINE Place OfTap(int64_t number) const {
    const Tap tap = TapAt(number, c.channel_taps, c);
    return Make(tap.channel * c.x.channel, tap.h * c.dilation_h, tap.w * c.dilation_w);
  }
  OW_INLINE Value At(Place a, Place b) const {
    const Place at = Sum(a, b);
    const bool is_inside = static_cast<uint32_t>(at.h) < static_cast<uint32_t>(c.height) &&
                           static_cast<uint32_t>(at.w) < static_cast<uint32_t>(c.width);
    return is_inside ? Load(x[at.offset]) : Value(0);
  }

 private:
  OW_INLINE Place Make(int64_t offset, int32_t h, int32_t w) const {
    return {offset + h * c.x.h + w * c.x.w, h, w};
  }
};

template <typename T>
struct WindowsByTaps : Covered<T> {
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return this->OfWindow(row); }
  OW_INLINE Place Step(int64_t step) const { return this->OfTap(step); }
};

template <typename T>
struct TapsByWindows : Covered<T> {
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return this->OfTap(row); }
  OW_INLINE Place Step(int64_t step) const { return this->OfWindow(step); }
};

// The gradients of the windows that cover a pixel with a tap.
template <typename T>
struct PixelsByTaps {
  using Value = Compute<T>;
  const T* out_grad;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const {
    const Triple at = TakeApart(row, c.pixels);
    return {at.first * c.out.image, at.middle + c.top, at.last + c.left};
  }
  OW_INLINE Place Step(int64_t step) const {
    const Tap tap = TapAt(step, c.filter_taps, c);
    return {tap.channel * c.out.channel, -tap.h * c.dilation_h, -tap.w * c.dilation_w};
  }
  OW_INLINE Value At(Place row, Place step) const {
    const Place at = Sum(row, step);
    if (at.h < 0 || at.w < 0) return Value(0);
    const auto h = static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(at.h), c.by_stride_h));
    const auto w = static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(at.w), c.by_stride_w));
    const bool is_window =
        h * c.stride_h == at.h && w * c.stride_w == at.w && h < c.out_height && w < c.out_width;
    return is_window ? Load(out_grad[at.offset + h * c.out.h + w * c.out.w]) : Value(0);
  }
};

// The weight of a group: rows are filters or channels.
template <typename T, bool of_filters>
struct WeightSource {
  using Value = Compute<T>;
  const T* weight;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const {
    const Tap none{0, 0, 0};
    return {of_filters ? OffsetInWeight(row, 0, none, c) : OffsetInWeight(0, row, none, c), 0, 0};
  }
  OW_INLINE Place Step(int64_t step) const {
    const Tap tap = TapAt(step, of_filters ? c.channel_taps : c.filter_taps, c);
    return {of_filters ? OffsetInWeight(0, tap.channel, tap, c)
                       : OffsetInWeight(tap.channel, 0, tap, c),
            0, 0};
  }
  OW_INLINE Value At(Place row, Place step) const {
    return row.h + step.h >= 0 ? Load(weight[row.offset + step.offset]) : Value(0);
  }
};

// The gradients of windows: rows are filters.
template <typename T>
struct FiltersByWindows {
  using Value = Compute<T>;
  const T* out_grad;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return {row * c.out.channel, 0, 0}; }
  OW_INLINE Place Step(int64_t step) const { return {OffsetOfWindow(step, c), 0, 0}; }
  OW_INLINE Value At(Place row, Place step) const {
    return row.h + step.h >= 0 ? Load(out_grad[row.offset + step.offset]) : Value(0);
  }
};

// Where sums go: into `out`, or where the steps are cut into parts, of `part` each, into [parts,
// n].
template <typename T>
struct Target {
  T* out;
  Compute<T>* sums_of_parts;  // null where there is one part
  int64_t n;
  int64_t part;

  OW_INLINE int64_t Begin() const { return blockIdx.z * part; }
  OW_INLINE int64_t End(int64_t n_steps) const { return min(Begin() + part, n_steps); }
  OW_INLINE void Write(int64_t i, Compute<T> sum, const T* bias) const {
    if (sums_of_parts != nullptr) {
      sums_of_parts[blockIdx.z * n + i] = sum;
    } else {
      out[i] = Store<T>(bias == nullptr ? sum : sum + Load(*bias));
    }
  }
};

// Which tile a block computes: tiles of a group on x, the group on y.
template <typename Shape>
struct TileOfBlock {
  int64_t row;
  int64_t column;

  OW_INLINE explicit TileOfBlock(int64_t n_rows) {
    const auto row_tiles = static_cast<uint32_t>((n_rows + Shape::kRows - 1) / Shape::kRows);
    row = int64_t(blockIdx.x % row_tiles) * Shape::kRows;
    column = int64_t(blockIdx.x / row_tiles) * Shape::kColumns;
  }
};

// Grid: tiles, groups, parts of the taps.
template <typename T, int rows>
__global__ void __launch_bounds__(kProductThreads)
    convolve(Target<T> target, const T* x, const T* weight, const T* bias, Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t n_taps = int64_t(c.channels) * c.kernel_h * c.kernel_w;
  const TileOfBlock<Shape> tile(c.n_windows);
  x += group * c.channels * c.x.channel;
  const WindowsByTaps<T> left{{x, c}, is_last, c.n_windows};
  const WeightSource<T, true> right{weight + group * c.filters * n_taps, c, true, c.filters};
  TileSums<Value, Shape> sums(!is_last);
  MultiplyTiles(left, right, tile.row, tile.column, target.Begin(), target.End(n_taps), &sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t window = tile.row + sums.row + i;
    if (window >= c.n_windows) break;
    const int64_t at = OffsetOfWindow(window, c);
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t of_group = tile.column + sums.column + j;
      if (of_group >= c.filters) break;
      const int64_t filter = group * c.filters + of_group;
      const T* of_filter = bias == nullptr ? nullptr : bias + filter;
      target.Write(at + filter * c.out.channel, sums.at[i][j], of_filter);
    }
  }
}

// Grid: tiles, groups, parts of the taps.
template <typename T, int rows>
__global__ void __launch_bounds__(kProductThreads)
    convolve_input_grad(Target<T> target, const T* weight, const T* out_grad, Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t kernel = int64_t(c.kernel_h) * c.kernel_w;
  const TileOfBlock<Shape> tile(c.n_pixels);
  out_grad += group * c.filters * c.out.channel;
  weight += group * c.filters * c.channels * kernel;
  const PixelsByTaps<T> left{out_grad, c, is_last, c.n_pixels};
  // Of a kernel of one tap, or where steps are filters first, channels lie closer together.
  const WeightSource<T, false> right{weight, c, !is_last && kernel > 1, c.channels};
  TileSums<Value, Shape> sums(!is_last);
  const int64_t end = target.End(c.filters * kernel);
  MultiplyTiles(left, right, tile.row, tile.column, target.Begin(), end, &sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t pixel = tile.row + sums.row + i;
    if (pixel >= c.n_pixels) break;
    const Triple at = TakeApart(pixel, c.pixels);
    const int64_t offset = at.first * c.x.image + at.middle * c.x.h + at.last * c.x.w;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t channel = tile.column + sums.column + j;
      if (channel >= c.channels) break;
      const int64_t place = offset + (group * c.channels + channel) * c.x.channel;
      target.Write(place, sums.at[i][j], nullptr);
    }
  }
}

// Grid: tiles, groups, parts of the windows.
template <typename T, int rows>
__global__ void __launch_bounds__(kProductThreads)
    convolve_weight_grad(Target<T> target, const T* x, const T* out_grad, Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t n_taps = int64_t(c.channels) * c.kernel_h * c.kernel_w;
  const TileOfBlock<Shape> tile(c.filters);
  x += group * c.channels * c.x.channel;
  out_grad += group * c.filters * c.out.channel;
  const FiltersByWindows<T> left{out_grad, c, !is_last, c.filters};
  const TapsByWindows<T> right{{x, c}, !is_last, n_taps};
  TileSums<Value, Shape> sums(false);
  const int64_t end = target.End(c.n_windows);
  MultiplyTiles(left, right, tile.row, tile.column, target.Begin(), end, &sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t filter = tile.row + sums.row + i;
    if (filter >= c.filters) break;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t number = tile.column + sums.column + j;
      if (number >= n_taps) break;
      const Tap tap = TapAt(number, c.channel_taps, c);
      const int64_t place = OffsetInWeight(group * c.filters + filter, tap.channel, tap, c);
      target.Write(place, sums.at[i][j], nullptr);
    }
  }
}

constexpr int kSumThreads = 256;

// The sum over images and windows of each channel of out_grad. A block adds one part of the windows
// of `width` neighbouring channels, a power of 2; grid: channels by width, 1, parts of the windows.
template <typename T>
__global__ void sum_windows(Target<T> target, const T* out_grad, int width, Convolution c) {
  using Value = Compute<T>;
  OW_SHARED(Value, sums, kSumThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t channel = int64_t(blockIdx.x) * width + thread % width;
  const int64_t end = target.End(c.n_windows);
  Value sum = 0;
  if (channel < target.n) {
    const T* of_channel = out_grad + channel * c.out.channel;
    const int64_t first = target.Begin() + thread / width;
    for (int64_t window = first; window < end; window += kSumThreads / width) {
      sum += Load(of_channel[OffsetOfWindow(window, c)]);
    }
  }
  sums[thread] = sum;
  for (int half = kSumThreads / 2; half >= width; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread < width && channel < target.n) target.Write(channel, sums[thread], nullptr);
}

// Adds parts in their order, and to each element that of the bias whose channel it is in: `inner`
// neighbours are in one channel.
template <typename T>
__global__ void sum_parts(Target<T> target, int64_t n_parts, const T* bias, int64_t n_channels,
                          int64_t inner) {
  for (int64_t i = GlobalIndex(); i < target.n; i += GridThreads()) {
    Compute<T> sum = 0;
#pragma unroll 8  // reads that do not wait for each other
    for (int64_t k = 0; k < n_parts; ++k) sum += target.sums_of_parts[k * target.n + i];
    if (bias != nullptr) sum += Load(bias[i / inner % n_channels]);
    target.out[i] = Store<T>(sum);
  }
}
