// The pixels that the positions of a grid read, their weights, and the derivatives of the weights.
#ifndef OPWRIGHT_CPU_SAMPLING_GRID_TAPS_H_
#define OPWRIGHT_CPU_SAMPLING_GRID_TAPS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "sampling/attributes.h"

namespace opwright_cpu {

enum class GridMode { kNearest, kBilinear, kBicubic };
enum class GridPadding { kZeros, kBorder, kReflection };

constexpr int64_t kGridBlock = 128;  // positions that are processed together
constexpr int32_t kMaxAxisTaps = 4;
constexpr int32_t kMaxGridTaps = 16;

// The sizes of images [n, channels, pixels], and of n grids of positions.
struct GridShape {
  int64_t n = 0, channels = 0, pixels = 1, places = 1;
  int32_t rank = 2;
  int64_t sizes[3] = {};
  GridMode mode = GridMode::kBilinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false, normalized = true;

  opwright::Status Make(const opwright::Shape& x, const opwright::Shape& grid,
                        const GridSampleAttrs& attrs);
  int32_t axis_taps() const {
    return mode == GridMode::kNearest ? 1 : mode == GridMode::kBilinear ? 2 : 4;
  }
  int32_t taps() const {
    int32_t count = 1;
    for (int32_t i = 0; i < rank; ++i) count *= axis_taps();
    return count;
  }
};

// The taps of up to kGridBlock positions. Taps outside the image have weight 0 and derivative 0;
// every offset is valid to read.
template <typename T>
struct GridTaps {
  int32_t offset[kMaxGridTaps][kGridBlock];
  T share[kMaxGridTaps][kGridBlock];
  T derivative[kMaxGridTaps][3][kGridBlock];

  // Reads `count` positions of `rank` coordinates each. Computes the derivatives with respect to
  // the coordinates only if requested.
  void Fill(const GridShape& shape, const T* grid, int64_t count, bool with_derivatives);

 private:
  struct Axis {
    int32_t index[kMaxAxisTaps][kGridBlock];
    T share[kMaxAxisTaps][kGridBlock];
    T derivative[kMaxAxisTaps][kGridBlock];
  };
  void FillAxis(const GridShape& shape, int32_t axis, const T* grid, int64_t count);
  void Join(const GridShape& shape, int32_t tap, int64_t count, bool with_derivatives);

  Axis axes_[3];
};

extern template struct GridTaps<float>;
extern template struct GridTaps<double>;

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SAMPLING_GRID_TAPS_H_
