// The positions of convolution windows in images with up to three spatial axes.
#ifndef OPWRIGHT_CPU_CONVOLUTION_IMAGE_WINDOWS_H_
#define OPWRIGHT_CPU_CONVOLUTION_IMAGE_WINDOWS_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/attributes.h"
#include "convolution/attributes.h"

namespace opwright_cpu {

// The layout of images. Absent spatial axes have length 1. Strides are in elements.
struct ImageLayout {
  int64_t sizes[3] = {1, 1, 1};  // depth, height, width
  int64_t channels = 0;
  int64_t slice = 0, row = 0, pixel = 0, channel = 0;

  ImageLayout() = default;
  ImageLayout(const opwright::Shape& shape, bool is_channels_last) {
    const int32_t rank = shape.rank() - 2;
    const int32_t first = is_channels_last ? 1 : 2;
    for (int32_t i = 0; i < rank; ++i) sizes[3 - rank + i] = shape.dim(first + i);
    channels = shape.dim(is_channels_last ? rank + 1 : 1);
    pixel = is_channels_last ? channels : 1;
    row = sizes[2] * pixel;
    slice = sizes[1] * row;
    channel = is_channels_last ? 1 : sizes[0] * slice;
  }
  int64_t pixels() const { return sizes[0] * sizes[1] * sizes[2]; }
  int64_t size() const { return pixels() * channels; }
  bool is_channels_last() const { return channel == 1 && pixel == channels; }
};

struct Range {
  int64_t begin;
  int64_t end;
};

struct ImageWindows {
  ImageLayout x, out;
  int64_t kernel[3] = {1, 1, 1}, strides[3] = {1, 1, 1}, dilations[3] = {1, 1, 1};
  int64_t before[3] = {};

  ImageWindows() = default;
  ImageWindows(const opwright::Shape& x_shape, const opwright::Shape& weight,
               const opwright::Shape& out_shape, const ConvolutionAttrs& attrs)
      : x(x_shape, IsChannelsLast(attrs.data_format)),
        out(out_shape, IsChannelsLast(attrs.data_format)) {
    const int32_t rank = weight.rank() - 2;
    for (int32_t i = 0; i < rank; ++i) {
      const int32_t axis = 3 - rank + i;
      const auto given = static_cast<size_t>(i);
      kernel[axis] = weight.dim(2 + i);
      strides[axis] = attrs.strides[given];
      dilations[axis] = attrs.dilations[given];
      before[axis] = attrs.paddings[2 * given];
    }
  }

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Returns the taps of window `i` along an axis that are inside the image.
  Range TapsOf(int64_t i, int32_t axis) const {
    const int64_t first = i * strides[axis] - before[axis], step = dilations[axis];
    const int64_t room = x.sizes[axis] - 1 - first;
    return {first < 0 ? (-first + step - 1) / step : 0,
            room < 0 ? 0 : std::min(kernel[axis], room / step + 1)};
  }

  // Returns the windows along the width whose tap `tap` is inside the image.
  Range ColumnsOf(int64_t tap) const {
    const int64_t shift = ShiftOf(tap), step = strides[2], room = x.sizes[2] - 1 - shift;
    return {shift < 0 ? (-shift + step - 1) / step : 0,
            room < 0 ? 0 : std::min(out.sizes[2], room / step + 1)};
  }
  int64_t ShiftOf(int64_t tap) const { return tap * dilations[2] - before[2]; }

  // Calls function(first element of a row of x, first tap of that row) for each image row that the
  // windows of output row `row` cover. `row` is counted over all slices.
  template <typename Function>
  void OverRows(int64_t row, const Function& function) const {
    const int64_t d = row / out.sizes[1], h = row % out.sizes[1];
    const Range deep = TapsOf(d, 0), down = TapsOf(h, 1);
    for (int64_t t = deep.begin; t < deep.end; ++t) {
      const int64_t z = d * strides[0] - before[0] + t * dilations[0];
      for (int64_t p = down.begin; p < down.end; ++p) {
        const int64_t y = h * strides[1] - before[1] + p * dilations[1];
        function(z * x.slice + y * x.row, (t * kernel[1] + p) * kernel[2]);
      }
    }
  }
  int64_t out_rows() const { return out.sizes[0] * out.sizes[1]; }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_IMAGE_WINDOWS_H_
