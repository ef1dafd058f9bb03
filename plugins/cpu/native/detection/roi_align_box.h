// The samples of a roi_align box, as pixel weights. The samples form a grid, so the weight of a
// pixel in a bin is its row weight times its column weight.
#ifndef OPWRIGHT_CPU_DETECTION_ROI_ALIGN_BOX_H_
#define OPWRIGHT_CPU_DETECTION_ROI_ALIGN_BOX_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "detection/attributes.h"

namespace opwright_cpu {

template <typename T>
struct Tap {
  int64_t place;
  T share;
};

// The pixels along one axis that have a weight in each bin, stored in memory of the caller.
template <typename T>
struct AxisTaps {
  Tap<T>* taps;
  int64_t* begins;  // the beginning of each bin, and the end of the last bin
  int64_t low = 0;  // places are in [low, high)
  int64_t high = 0;

  // Adjacent bins share at most two pixels. Samples outside are clamped to the first or last pixel.
  static int64_t Capacity(int64_t size, int64_t bins) { return size + 4 * bins; }

  void Fill(double begin, double extent, int64_t size, int64_t bins, int64_t ratio) {
    const double step = extent / static_cast<double>(bins);
    const int64_t samples = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(step));
    int64_t count = 0;
    low = size;
    high = 0;
    for (int64_t bin = 0; bin < bins; ++bin) {
      begins[bin] = count;
      for (int64_t i = 0; i < samples; ++i) {
        const double within = (static_cast<double>(i) + 0.5) / static_cast<double>(samples);
        const double place = begin + (static_cast<double>(bin) + within) * step;
        if (place < -1.0 || place > static_cast<double>(size)) continue;
        const double held = std::clamp(place, 0.0, static_cast<double>(size - 1));
        const auto first = static_cast<int64_t>(held);
        const double share = held - static_cast<double>(first);
        const auto parts = static_cast<double>(samples);
        count = Add(begins[bin], count, first, (1.0 - share) / parts);
        if (share > 0.0) count = Add(begins[bin], count, first + 1, share / parts);
      }
    }
    begins[bins] = count;
  }

 private:
  // Samples are in increasing order, so an existing tap of the pixel is among the last three taps.
  int64_t Add(int64_t begin, int64_t count, int64_t place, double share) {
    for (int64_t at = count - 1; at >= std::max(begin, count - 3); --at) {
      if (taps[at].place != place) continue;
      taps[at].share += static_cast<T>(share);
      return count;
    }
    taps[count] = {place, static_cast<T>(share)};
    low = std::min(low, place);
    high = std::max(high, place + 1);
    return count + 1;
  }
};

template <typename T>
OPWRIGHT_CPU_CLONES void AddRow(int64_t n, const T* x, T share, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i] * share;
}

struct RoiShape {
  int64_t images, channels, height, width, boxes, rows, columns;

  void Make(const opwright::Shape& x, const opwright::Shape& out) {
    images = x.dim(0), channels = x.dim(1), height = x.dim(2), width = x.dim(3);
    boxes = out.dim(0), rows = out.dim(2), columns = out.dim(3);
  }
  int64_t pixels() const { return height * width; }
  int64_t bins() const { return rows * columns; }
};

// The scratch memory of one thread: the taps of both axes of a box, and a row of pixels.
template <typename T>
class Box {
 public:
  static uint64_t Bytes(const RoiShape& s) {
    const int64_t taps =
        AxisTaps<T>::Capacity(s.height, s.rows) + AxisTaps<T>::Capacity(s.width, s.columns);
    const int64_t bytes = taps * static_cast<int64_t>(sizeof(Tap<T>)) +
                          (s.rows + s.columns + 2) * static_cast<int64_t>(sizeof(int64_t)) +
                          s.width * static_cast<int64_t>(sizeof(T));
    return (static_cast<uint64_t>(bytes) + 63) / 64 * 64;
  }

  Box(const RoiShape& shape, char* memory) : shape_(shape) {
    auto* taps = reinterpret_cast<Tap<T>*>(memory);
    rows.taps = taps;
    columns.taps = taps + AxisTaps<T>::Capacity(shape.height, shape.rows);
    rows.begins = reinterpret_cast<int64_t*>(columns.taps +
                                             AxisTaps<T>::Capacity(shape.width, shape.columns));
    columns.begins = rows.begins + shape.rows + 1;
    pixels = reinterpret_cast<T*>(columns.begins + shape.columns + 1);
  }

  void Fill(const T* roi, const RoiAlignAttrs& attrs) {
    double corner[4];
    for (int i = 0; i < 4; ++i) corner[i] = static_cast<double>(roi[i]) * attrs.spatial_scale;
    const double shift = attrs.aligned ? 0.5 : 0.0, least = attrs.aligned ? -1e9 : 1.0;
    rows.Fill(corner[1] - shift, std::max(corner[3] - corner[1], least), shape_.height, shape_.rows,
              attrs.sampling_ratio);
    columns.Fill(corner[0] - shift, std::max(corner[2] - corner[0], least), shape_.width,
                 shape_.columns, attrs.sampling_ratio);
  }

  // Computes one channel of the output of this box.
  void Pool(const T* plane, T* out) const {
    const int64_t n = std::max<int64_t>(columns.high - columns.low, 0);
    for (int64_t i = 0; i < shape_.rows; ++i) {
      std::fill_n(pixels, n, T(0));
      for (int64_t at = rows.begins[i]; at < rows.begins[i + 1]; ++at) {
        const T* row = plane + rows.taps[at].place * shape_.width + columns.low;
        AddRow<T>(n, row, rows.taps[at].share, pixels);
      }
      for (int64_t j = 0; j < shape_.columns; ++j) {
        T sum = 0;
        for (int64_t at = columns.begins[j]; at < columns.begins[j + 1]; ++at) {
          sum += pixels[columns.taps[at].place - columns.low] * columns.taps[at].share;
        }
        out[i * shape_.columns + j] = sum;
      }
    }
  }

  // Adds the gradient of one channel of this box.
  void Spread(const T* grad, T* plane) const {
    const int64_t n = std::max<int64_t>(columns.high - columns.low, 0);
    for (int64_t i = 0; i < shape_.rows; ++i) {
      std::fill_n(pixels, n, T(0));
      for (int64_t j = 0; j < shape_.columns; ++j) {
        const T out_grad = grad[i * shape_.columns + j];
        for (int64_t at = columns.begins[j]; at < columns.begins[j + 1]; ++at) {
          pixels[columns.taps[at].place - columns.low] += out_grad * columns.taps[at].share;
        }
      }
      for (int64_t at = rows.begins[i]; at < rows.begins[i + 1]; ++at) {
        T* row = plane + rows.taps[at].place * shape_.width + columns.low;
        AddRow<T>(n, pixels, rows.taps[at].share, row);
      }
    }
  }

  AxisTaps<T> rows, columns;
  T* pixels;

 private:
  const RoiShape& shape_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_DETECTION_ROI_ALIGN_BOX_H_
