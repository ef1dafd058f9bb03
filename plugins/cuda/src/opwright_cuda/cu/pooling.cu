// Pooling of every kind: windows of any size, bins, images with a depth (1 for 2-d images), and
// 64-bit indices. pooling_small.cu has separate kernels for small windows. A thread, or a warp for
// large windows, computes one output. In the gradients, a thread computes one pixel from the
// windows that cover it. These kernels are compute-bound, since locating an element takes
// divisions, and locating each neighbor takes a product.
#include "kernel.h"
#include "pooling.h"
#include "reduce.h"

using namespace opwright_cuda;

// Images of [n, depth, height, width, channels]; channels-first images are treated as
// single-channel images.
struct Pooling {
  PoolAxis d;
  PoolAxis h;
  PoolAxis w;
  int64_t n_outputs;
  int64_t n_pixels;
  int32_t channels;
  int32_t divisor;  // divisor of means; 0 means the number of elements
  Divider by_channels;
};

// Returns the range from the first to the last window that covers an element.
OW_INLINE Span WindowsOf(int32_t place, const PoolAxis& axis) {
  if (axis.kernel == 0) {
    return {static_cast<int32_t>(int64_t(place) * axis.n_windows / axis.size),
            CeilOfQuotient((int64_t(place) + 1) * axis.n_windows, axis.size)};
  }
  const int32_t padded = place + axis.before;
  const int32_t reach = (axis.kernel - 1) * axis.dilation + 1;
  const int32_t first = padded < reach ? 0 : (padded - reach) / axis.stride + 1;
  return {first, min(padded / axis.stride + 1, axis.n_windows)};
}

// Returns whether one of these windows covers the element; with a dilation, some do not cover it.
OW_INLINE bool Covers(int32_t window, int32_t place, const PoolAxis& axis) {
  return axis.dilation == 1 || (place + axis.before - window * axis.stride) % axis.dilation == 0;
}

struct Position {
  int64_t image;
  int32_t d;
  int32_t h;
  int32_t w;
  int32_t channel;
};

constexpr int64_t kNarrow = int64_t(1) << 31;

// Returns the position of element `number` in images with these sizes.
OW_INLINE Position PositionOf(int64_t number, int64_t n, Divider by_depth, Divider by_height,
                              Divider by_width, Divider by_channels) {
  if (n < kNarrow) {
    const auto whole = static_cast<uint32_t>(number);
    const uint32_t pixel = QuotientOf(whole, by_channels);
    const uint32_t row = QuotientOf(pixel, by_width);
    const uint32_t slice = QuotientOf(row, by_height);
    const uint32_t image = by_depth.divisor == 1 ? slice : QuotientOf(slice, by_depth);
    return {image, static_cast<int32_t>(slice - image * by_depth.divisor),
            static_cast<int32_t>(row - slice * by_height.divisor),
            static_cast<int32_t>(pixel - row * by_width.divisor),
            static_cast<int32_t>(whole - pixel * by_channels.divisor)};
  }
  const int64_t pixel = number / by_channels.divisor;
  const int64_t row = pixel / by_width.divisor;
  const int64_t slice = row / by_height.divisor;
  return {slice / by_depth.divisor, static_cast<int32_t>(slice % by_depth.divisor),
          static_cast<int32_t>(row % by_height.divisor),
          static_cast<int32_t>(pixel % by_width.divisor),
          static_cast<int32_t>(number % by_channels.divisor)};
}

OW_INLINE Position OutputAt(int64_t number, const Pooling& p) {
  return PositionOf(number, p.n_outputs, p.d.by_windows, p.h.by_windows, p.w.by_windows,
                    p.by_channels);
}
OW_INLINE Position PixelAt(int64_t number, const Pooling& p) {
  return PositionOf(number, p.n_pixels, p.d.by_size, p.h.by_size, p.w.by_size, p.by_channels);
}
// Returns the offset of a pixel or window in the slice that begins at row `row` of all rows.
OW_INLINE int64_t OffsetOfPixel(const Position& at, int64_t row, int32_t w, const Pooling& p) {
  return (row * p.w.size + w) * p.channels + at.channel;
}
OW_INLINE int64_t OffsetOfOutput(const Position& at, int64_t row, int32_t w, const Pooling& p) {
  return (row * p.w.n_windows + w) * p.channels + at.channel;
}

// Calls function(row of all rows of images, slice, row) for every `by_slice`-th slice and every
// `by_row`-th row in the spans.
template <typename Function>
OW_INLINE void OverRows(int64_t image, Span slices, Span rows, int32_t depth, int32_t height,
                        const Function& function, int32_t by_slice = 1, int32_t by_row = 1) {
  for (int32_t d = slices.begin; d < slices.end; d += by_slice) {
    const int64_t slice = (image * depth + d) * height;
    for (int32_t h = rows.begin; h < rows.end; h += by_row) function(slice + h, d, h);
  }
}

// Returns the divisor for the sum of a window.
OW_INLINE int64_t CountAt(int32_t d, int32_t h, int32_t w, const Pooling& p) {
  if (p.divisor != 0) return p.divisor;
  return int64_t(CountOf(d, p.d)) * CountOf(h, p.h) * CountOf(w, p.w);
}

// Of equal elements, the first wins; NaN is greater than every number. `index` may be null.
template <typename T>
__global__ void pool_max(T* out, int32_t* index, const T* x, Pooling p) {
  using Value = Compute<T>;
  for (int64_t i = GlobalIndex(); i < p.n_outputs; i += GridThreads()) {
    const Position at = OutputAt(i, p);
    const Span slices = WindowAt(at.d, p.d);
    const Span rows = WindowAt(at.h, p.h);
    const Span columns = WindowAt(at.w, p.w);
    int32_t place = -1;
    T best = T();
    const auto take = [&](int64_t row, int32_t d, int32_t h) {
      for (int32_t w = columns.begin; w < columns.end; w += p.w.dilation) {
        const T element = x[OffsetOfPixel(at, row, w, p)];
        const Value value = Load(element);
        const Value greatest = Load(best);
        const bool is_greater =
            place < 0 || value > greatest || (value != value && greatest == greatest);
        if (!is_greater) continue;
        best = element;
        place = (d * p.h.size + h) * p.w.size + w;
      }
    };
    OverRows(at.image, slices, rows, p.d.size, p.h.size, take, p.d.dilation, p.h.dilation);
    out[i] = best;
    if (index != nullptr) index[i] = place;
  }
}

// An index outside the image is reported, and its window does not contribute.
template <typename T>
__global__ void pool_max_grad(T* x_grad, const int32_t* index, const T* out_grad, Pooling p,
                              Fault* fault, int32_t text) {
  const auto n_places = static_cast<uint32_t>(p.d.size) * static_cast<uint32_t>(p.h.size) *
                        static_cast<uint32_t>(p.w.size);
  for (int64_t i = GlobalIndex(); i < p.n_pixels; i += GridThreads()) {
    const Position at = PixelAt(i, p);
    const Span slices = WindowsOf(at.d, p.d);
    const Span rows = WindowsOf(at.h, p.h);
    const Span columns = WindowsOf(at.w, p.w);
    const int32_t place = (at.d * p.h.size + at.h) * p.w.size + at.w;
    Compute<T> sum = 0;
    OverRows(at.image, slices, rows, p.d.n_windows, p.h.n_windows,
             [&](int64_t row, int32_t, int32_t) {
               for (int32_t w = columns.begin; w < columns.end; ++w) {
                 const int64_t window = OffsetOfOutput(at, row, w, p);
                 const int32_t found = index[window];
                 if (found == place) sum += Load(out_grad[window]);
                 if (static_cast<uint32_t>(found) >= n_places) Report(fault, text, found);
               }
             });
    x_grad[i] = Store<T>(sum);
  }
}

// One window is summed by `lanes` threads: a single thread or a warp.
template <typename T>
__global__ void pool_average(T* out, const T* x, Pooling p, int32_t lanes) {
  using Value = Compute<T>;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % lanes;
  for (int64_t i = GlobalIndex() / lanes; i < p.n_outputs; i += GridThreads() / lanes) {
    const Position at = OutputAt(i, p);
    const Span slices = WindowAt(at.d, p.d);
    const Span rows = WindowAt(at.h, p.h);
    const Span columns = WindowAt(at.w, p.w);
    const int32_t width = CeilOfQuotient(columns.end - columns.begin, p.w.dilation);
    Value sum = 0;
    int32_t w = lane;  // index in the concatenated rows
    const auto add = [&](int64_t row, int32_t, int32_t) {
      for (; w < width; w += lanes) {
        sum += Load(x[OffsetOfPixel(at, row, columns.begin + w * p.w.dilation, p)]);
      }
      w -= width;
    };
    OverRows(at.image, slices, rows, p.d.size, p.h.size, add, p.d.dilation, p.h.dilation);
    if (lanes > 1) sum = WarpReduce(sum, SumOf<Value>());
    const auto count = static_cast<Value>(CountAt(at.d, at.h, at.w, p));
    if (lane == 0) out[i] = Store<T>(sum / count);
  }
}

template <typename T>
__global__ void pool_average_grad(T* x_grad, const T* out_grad, Pooling p) {
  using Value = Compute<T>;
  for (int64_t i = GlobalIndex(); i < p.n_pixels; i += GridThreads()) {
    const Position at = PixelAt(i, p);
    const Span slices = WindowsOf(at.d, p.d);
    const Span rows = WindowsOf(at.h, p.h);
    const Span columns = WindowsOf(at.w, p.w);
    Value sum = 0;
    OverRows(at.image, slices, rows, p.d.n_windows, p.h.n_windows,
             [&](int64_t row, int32_t d, int32_t h) {
               if (!Covers(d, at.d, p.d) || !Covers(h, at.h, p.h)) return;
               for (int32_t w = columns.begin; w < columns.end; ++w) {
                 if (!Covers(w, at.w, p.w)) continue;
                 const auto count = static_cast<Value>(CountAt(d, h, w, p));
                 sum += Load(out_grad[OffsetOfOutput(at, row, w, p)]) / count;
               }
             });
    x_grad[i] = Store<T>(sum);
  }
}
