// The windows of pooling, and the rows and columns that each window covers.
#ifndef OPWRIGHT_CPU_POOLING_WINDOWS_H_
#define OPWRIGHT_CPU_POOLING_WINDOWS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/attributes.h"
#include "pooling/attributes.h"

namespace opwright_cpu {

// One window along one axis: every step-th element of [begin, end), and the count for a mean.
struct Window {
  int64_t begin;
  int64_t end;
  int64_t count;
  int64_t step = 1;

  int64_t size() const { return (end - begin + step - 1) / step; }
};

// The sizes of images with channels first or last. Images without a depth axis have depth 1. If
// channels are last, `run` channels are contiguous and `planes` is the number of images; otherwise
// `run` is 1, and every channel of every image is a plane.
struct ImageSizes {
  int64_t planes = 0;
  int64_t depth = 1;
  int64_t height = 0;
  int64_t width = 0;
  int64_t run = 1;

  static ImageSizes Of(const opwright::Shape& shape, const std::string& data_format) {
    const bool is_last = IsChannelsLast(data_format);
    const int32_t rank = shape.rank(), width = is_last ? rank - 2 : rank - 1;
    ImageSizes sizes;
    sizes.planes = is_last ? shape.dim(0) : shape.dim(0) * shape.dim(1);
    if (rank == 5) sizes.depth = shape.dim(width - 2);
    sizes.height = shape.dim(width - 1);
    sizes.width = shape.dim(width);
    if (is_last) sizes.run = shape.dim(rank - 1);
    return sizes;
  }
  int64_t pixels() const { return depth * height * width; }
  int64_t plane() const { return pixels() * run; }
  int64_t slice() const { return height * row(); }
  int64_t row() const { return width * run; }
};

// Returns windows of `kernel` elements that are `step` apart; adjacent windows are `stride` apart.
inline std::vector<Window> SlidingWindows(int64_t size, int64_t count, int64_t kernel,
                                          int64_t stride, int64_t step, int64_t before,
                                          int64_t after, bool include_pad) {
  std::vector<Window> windows;
  const int64_t reach = (kernel - 1) * step + 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * stride - before;
    const int64_t begin = first < 0 ? (step - -first % step) % step : first;
    Window window{begin, std::min(first + reach, size), 0, step};
    // The window is clipped to the padded image.
    const Window padded{first, std::min(first + reach, size + after), 0, step};
    window.count = include_pad ? padded.size() : window.size();
    windows.push_back(window);
  }
  return windows;
}

// Returns `count` bins that cover an axis. Bins overlap unless `count` divides the axis length.
inline std::vector<Window> Bins(int64_t size, int64_t count) {
  std::vector<Window> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count;
    const int64_t end = ((i + 1) * size + count - 1) / count;
    windows.push_back({begin, end, end - begin});
  }
  return windows;
}

// The windows of images along each axis.
struct PoolWindows {
  ImageSizes x;
  ImageSizes out;
  std::vector<Window> slices;
  std::vector<Window> rows;
  std::vector<Window> columns;

  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const PoolAttrs& attrs, bool include_pad) {
    x = ImageSizes::Of(x_shape, attrs.data_format);
    out = ImageSizes::Of(out_shape, attrs.data_format);
    const std::vector<int64_t>& strides = attrs.strides.empty() ? attrs.kernel : attrs.strides;
    const size_t last = attrs.kernel.size() - 1;
    const auto slide = [&](int64_t size, int64_t count, size_t axis) {
      return SlidingWindows(size, count, attrs.kernel[axis], strides[axis], attrs.dilations[axis],
                            attrs.paddings[2 * axis], attrs.paddings[2 * axis + 1], include_pad);
    };
    slices = last == 2 ? slide(x.depth, out.depth, 0) : std::vector<Window>{{0, 1, 1}};
    rows = slide(x.height, out.height, last - 1);
    columns = slide(x.width, out.width, last);
  }
  void Make(const opwright::Shape& x_shape, const opwright::Shape& out_shape,
            const AdaptivePoolAttrs& attrs) {
    x = ImageSizes::Of(x_shape, attrs.data_format);
    out = ImageSizes::Of(out_shape, attrs.data_format);
    slices = Bins(x.depth, out.depth);
    rows = Bins(x.height, out.height);
    columns = Bins(x.width, out.width);
  }

  // Returns the number of window rows in all slices of a plane.
  int64_t out_rows() const { return out.depth * out.height; }
  const Window& SliceOf(int64_t row) const { return slices[static_cast<size_t>(row / out.height)]; }
  const Window& RowOf(int64_t row) const { return rows[static_cast<size_t>(row % out.height)]; }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_WINDOWS_H_
