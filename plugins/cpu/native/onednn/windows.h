// The windows of pooling: which rows and columns each of them covers.
#ifndef OPWRIGHT_CPU_ONEDNN_WINDOWS_H_
#define OPWRIGHT_CPU_ONEDNN_WINDOWS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// One window along one axis: elements [begin, end), and how many count for a mean.
struct Window {
  int64_t begin;
  int64_t end;
  int64_t count;
};

// Images in either order of axes. With the channels last, `run` channels lie side by side and
// `planes` counts images; otherwise run is 1 and every channel of every image is a plane.
struct ImageSizes {
  int64_t planes = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t run = 1;

  static ImageSizes Of(const opwright::Shape& shape, const std::string& data_format) {
    if (data_format == "NHWC") return {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3)};
    return {shape.dim(0) * shape.dim(1), shape.dim(2), shape.dim(3), 1};
  }
  int64_t plane() const { return height * width * run; }
  int64_t row() const { return width * run; }
};

// Windows of `kernel` elements at a distance of `stride`.
inline std::vector<Window> SlidingWindows(int64_t size, int64_t count, int64_t kernel,
                                          int64_t stride, int64_t before, int64_t after,
                                          bool include_pad) {
  std::vector<Window> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * stride - before;
    const int64_t begin = std::max<int64_t>(first, 0);
    const int64_t end = std::min(first + kernel, size);
    // What sticks out beyond the padding is nothing at all.
    const int64_t padded = std::min(first + kernel, size + after) - first;
    windows.push_back({begin, end, include_pad ? padded : end - begin});
  }
  return windows;
}

// `count` bins that cover an axis; those of sizes that do not divide it overlap.
inline std::vector<Window> Bins(int64_t size, int64_t count) {
  std::vector<Window> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count;
    const int64_t end = ((i + 1) * size + count - 1) / count;
    windows.push_back({begin, end, end - begin});
  }
  return windows;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_WINDOWS_H_
