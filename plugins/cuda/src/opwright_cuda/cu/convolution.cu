// Convolution as implicit GEMM. The image position of a matrix row and step is computed when
// tiles.h loads the element. Elements outside the image are 0.
//
//   out:         rows are windows, columns are filters, steps are taps
//   x_grad:      rows are pixels of x, columns are channels, steps are taps of filters
//   weight_grad: rows are filters, columns are taps, steps are windows
//
// If there are few tiles, the steps are split into parts, whose sums are added in a second pass.
#include "convolution.h"

using namespace opwright_cuda;

// The destination of the sums: `out`, or [parts, n] if steps are split into parts of `part` steps.
template <typename T>
struct Target {
  T* out;
  Compute<T>* sums_of_parts;  // null for a single part
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

// The tile of a block. blockIdx.x selects a tile of a group, and blockIdx.y the group.
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
template <typename T, int rows, bool deep>
__global__ void __launch_bounds__(kProductThreads)
    convolve(Target<T> target, const T* x, const T* weight, const T* bias, Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t n_taps = c.channels * KernelSize(c);
  const TileOfBlock<Shape> tile(c.n_windows);
  x += group * c.channels * c.x.channel;
  const WindowsByTaps<T, deep> left{{x, c}, is_last, c.n_windows};
  const WeightSource<T, true, deep> right{weight + group * c.filters * n_taps, c, true, c.filters};
  TileSums<Value, Shape> sums(!is_last);
  MultiplyTiles(left, right, tile.row, tile.column, target.Begin(), target.End(n_taps), &sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t window = tile.row + sums.row + i;
    if (window >= c.n_windows) break;
    const int64_t at = OffsetOfWindow<deep>(window, c);
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

// Grid: tiles, groups, parts of the taps. Only a transposed convolution has a bias here.
template <typename T, int rows, bool deep>
__global__ void __launch_bounds__(kProductThreads)
    convolve_input_grad(Target<T> target, const T* weight, const T* out_grad, const T* bias,
                        Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t kernel = KernelSize(c);
  const TileOfBlock<Shape> tile(c.n_pixels);
  out_grad += group * c.filters * c.out.channel;
  weight += group * c.filters * c.channels * kernel;
  const PixelsByTaps<T, deep> left{out_grad, c, is_last, c.n_pixels};
  // If kernels have one tap, or filters vary fastest in steps, channels are closer in memory.
  const WeightSource<T, false, deep> right{weight, c, !is_last && kernel > 1, c.channels};
  TileSums<Value, Shape> sums(!is_last);
  const int64_t end = target.End(c.filters * kernel);
  MultiplyTiles(left, right, tile.row, tile.column, target.Begin(), end, &sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t pixel = tile.row + sums.row + i;
    if (pixel >= c.n_pixels) break;
    const Quadruple at = TakeApart<deep>(pixel, c.pixels);
    int64_t offset = at.first * c.x.image + at.middle * c.x.h + at.last * c.x.w;
    if constexpr (deep) offset += at.slice * c.x.d;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t of_group = tile.column + sums.column + j;
      if (of_group >= c.channels) break;
      const int64_t channel = group * c.channels + of_group;
      const T* of_channel = bias == nullptr ? nullptr : bias + channel;
      target.Write(offset + channel * c.x.channel, sums.at[i][j], of_channel);
    }
  }
}

// Grid: tiles, groups, parts of the windows.
template <typename T, int rows, bool deep>
__global__ void __launch_bounds__(kProductThreads)
    convolve_weight_grad(Target<T> target, const T* x, const T* out_grad, Convolution c) {
  using Value = Compute<T>;
  using Shape = TileShape<rows>;
  const int64_t group = blockIdx.y;
  const bool is_last = c.is_channels_last != 0;
  const int64_t n_taps = c.channels * KernelSize(c);
  const TileOfBlock<Shape> tile(c.filters);
  x += group * c.channels * c.x.channel;
  out_grad += group * c.filters * c.out.channel;
  const FiltersByWindows<T, deep> left{out_grad, c, !is_last, c.filters};
  const TapsByWindows<T, deep> right{{x, c}, !is_last, n_taps};
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
      const Tap tap = TapAt<deep>(number, c.channel_taps, c);
      const int64_t place = OffsetInWeight<deep>(group * c.filters + filter, tap.channel, tap, c);
      target.Write(place, sums.at[i][j], nullptr);
    }
  }
}

constexpr int kSumThreads = 256;

// Sums each channel of out_grad over images and windows. A block sums one part of the windows of
// `width` adjacent channels, a power of 2. Grid: channels / width, 1, parts of the windows.
template <typename T, bool deep>
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
      sum += Load(of_channel[OffsetOfWindow<deep>(window, c)]);
    }
  }
  sums[thread] = sum;
  for (int half = kSumThreads / 2; half >= width; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread < width && channel < target.n) target.Write(channel, sums[thread], nullptr);
}

// Adds the parts in order, then the bias. `inner` adjacent elements belong to the same channel.
template <typename T>
__global__ void sum_parts(Target<T> target, int64_t n_parts, const T* bias, int64_t n_channels,
                          int64_t inner) {
  for (int64_t i = GlobalIndex(); i < target.n; i += GridThreads()) {
    Compute<T> sum = 0;
#pragma unroll 8  // independent reads
    for (int64_t k = 0; k < n_parts; ++k) sum += target.sums_of_parts[k * target.n + i];
    if (bias != nullptr) sum += Load(bias[i / inner % n_channels]);
    target.out[i] = Store<T>(sum);
  }
}
