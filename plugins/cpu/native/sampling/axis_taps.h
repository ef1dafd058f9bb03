// The elements that each position of a resized axis reads, and their weights.
#ifndef OPWRIGHT_CPU_SAMPLING_AXIS_TAPS_H_
#define OPWRIGHT_CPU_SAMPLING_AXIS_TAPS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct ResizeAttrs {
  std::vector<int64_t> output_size;
  std::string mode;
  std::string coordinates;
  std::string rounding;
  bool antialias;
  double cubic_coefficient;
  std::vector<double> scales;  // if empty, the ratios of the lengths
  bool exclude_outside;
  std::vector<double> crop;  // begin and end of the crop per axis; only for crop_and_resize
  OPWRIGHT_ATTRIBUTES(output_size, mode, coordinates, rounding, antialias, cubic_coefficient,
                      scales, exclude_outside, crop);
};

// An element and its nonzero weight. Elements of weight 0 are not read, since they may be NaN.
struct Tap {
  int64_t place;
  double share;
};

// The taps of position i are taps[begins[i]] to taps[begins[i + 1] - 1].
struct AxisTaps {
  std::vector<Tap> taps;
  std::vector<int64_t> begins = {0};

  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
  void End() { begins.push_back(static_cast<int64_t>(taps.size())); }
  void Add(int64_t place, double share) {
    if (share != 0) taps.push_back({place, share});
  }

  // Returns the taps for the gradient: the positions to which each element contributes.
  AxisTaps Transposed(int64_t size) const {
    std::vector<std::vector<Tap>> of(static_cast<size_t>(size));
    for (int64_t i = 0; i < count(); ++i) {
      for (int64_t t = begins[static_cast<size_t>(i)]; t < begins[static_cast<size_t>(i) + 1];
           ++t) {
        const Tap& tap = taps[static_cast<size_t>(t)];
        of[static_cast<size_t>(tap.place)].push_back({i, tap.share});
      }
    }
    AxisTaps turned;
    for (const std::vector<Tap>& one : of) {
      turned.taps.insert(turned.taps.end(), one.begin(), one.end());
      turned.End();
    }
    return turned;
  }
};

// Returns the source coordinate of output position i, as the reference computes it.
inline double CoordinateOf(int64_t i, int64_t size, int64_t count, double scale,
                           const std::string& kind) {
  const auto whole = [](int64_t n) { return static_cast<double>(n); };
  if (kind == "align_corners") {
    return whole(i * (size - 1)) / whole(std::max<int64_t>(count - 1, 1));
  }
  if (kind == "pytorch_half_pixel" && count == 1) return 0;
  if (kind == "asymmetric") return scale != 0 ? whole(i) / scale : whole(i * size) / whole(count);
  double at = scale != 0 ? (whole(i) + 0.5) / scale - 0.5
                         : whole((2 * i + 1) * size - count) / whole(2 * count);
  if (kind == "half_pixel_symmetric" && scale != 0) {
    at += whole(size) / 2 * (1 - whole(count) / (scale * whole(size)));
  }
  return at;
}

inline double Rounded(double at, const std::string& rounding) {
  if (rounding == "round_prefer_ceil") return std::floor(at + 0.5);
  if (rounding == "round_prefer_floor") return std::ceil(at - 0.5);
  return rounding == "floor" ? std::floor(at) : std::ceil(at);
}

// Returns the weight of an element at a distance, by the triangle function or Keys' cubic function.
inline double ShareOf(double distance, bool is_cubic, double a) {
  const double d = std::fabs(distance);
  if (!is_cubic) return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

inline void AddAntialiased(int64_t i, int64_t size, int64_t count, double scale,
                           const ResizeAttrs& attrs, AxisTaps* axis) {
  const bool is_cubic = attrs.mode == "cubic";
  const double step =
      scale != 0 ? 1 / scale : static_cast<double>(size) / static_cast<double>(count);
  const double stretch = std::max(step, 1.0), support = (is_cubic ? 2 : 1) * stretch;
  const double center = step * (static_cast<double>(i) + 0.5);
  const auto begin = static_cast<int64_t>(std::max(std::floor(center - support + 0.5), 0.0));
  const auto end =
      static_cast<int64_t>(std::min(std::floor(center + support + 0.5), static_cast<double>(size)));
  const auto share_of = [&](int64_t place) {
    const double distance = (static_cast<double>(place) - center + 0.5) / stretch;
    return ShareOf(distance, is_cubic, attrs.cubic_coefficient);
  };
  double sum = 0;
  for (int64_t place = begin; place < end; ++place) sum += share_of(place);
  for (int64_t place = begin; place < end; ++place) axis->Add(place, share_of(place) / sum);
}

// Adds the taps of a linear or cubic filter at a coordinate. If elements beyond the ends are
// excluded, the weights of the other elements are divided by their sum.
inline void AddFilter(double at, int64_t size, const ResizeAttrs& attrs, AxisTaps* axis) {
  const bool is_cubic = attrs.mode == "cubic";
  const auto last = static_cast<double>(size - 1);
  const double first = std::floor(at);
  const int begin = is_cubic ? -1 : 0, end = is_cubic ? 2 : 1;
  const auto is_out = [&](int offset) { return first + offset < 0 || first + offset > last; };
  const auto share_of = [&](int offset) {
    if (attrs.exclude_outside && is_out(offset)) return 0.0;
    return ShareOf(at - first - offset, is_cubic, attrs.cubic_coefficient);
  };
  double sum = 1;
  if (attrs.exclude_outside) {
    sum = 0;
    for (int offset = begin; offset <= end; ++offset) sum += share_of(offset);
  }
  for (int offset = begin; offset <= end; ++offset) {
    const double place = std::clamp(first + offset, 0.0, last);
    axis->Add(static_cast<int64_t>(place), sum == 0 ? 0 : share_of(offset) / sum);
  }
}

// Returns the taps of all positions. `scale` is the scale factor for coordinates, or 0 for count /
// size. `part` holds the begin and end of the crop, or is null for the complete axis.
inline AxisTaps TapsOf(int64_t size, int64_t count, double scale, const double* part,
                       const ResizeAttrs& attrs) {
  AxisTaps axis;
  for (int64_t i = 0; i < count; ++i, axis.End()) {
    if (attrs.mode == "area") {
      const int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
      for (int64_t at = begin; at < end; ++at) axis.Add(at, 1 / static_cast<double>(end - begin));
      continue;
    }
    if (attrs.antialias) {
      AddAntialiased(i, size, count, scale, attrs, &axis);
      continue;
    }
    const auto last = static_cast<double>(size - 1);
    double at;
    if (part != nullptr) {
      const double from = part[0] * last, to = part[1] * last;
      at = count == 1
               ? (from + to) / 2
               : from + static_cast<double>(i) * (to - from) / static_cast<double>(count - 1);
      if (!(at >= 0 && at <= last)) continue;
    } else {
      at = CoordinateOf(i, size, count, scale, attrs.coordinates);
    }
    if (attrs.mode == "nearest") {
      const double nearest = std::clamp(Rounded(at, attrs.rounding), 0.0, last);
      axis.Add(static_cast<int64_t>(nearest), 1);
      continue;
    }
    AddFilter(at, size, attrs, &axis);
  }
  return axis;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SAMPLING_AXIS_TAPS_H_
