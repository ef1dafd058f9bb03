#include "sampling/grid_taps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clones.h"
#include "sampling/attributes.h"

namespace opwright_cpu {
namespace {

// Maps coordinates along one axis to pixel positions. All loops below process a block.
template <typename T>
struct AxisRule {
  T begin, factor, shift, last;  // position = (coordinate - begin) * factor + shift
  T low, span;                   // the interval at whose ends positions are reflected

  AxisRule(const GridShape& shape, int64_t size) {
    const T n = static_cast<T>(size);
    last = n - 1;
    begin = shape.normalized ? T(-1) : T(0);
    factor = !shape.normalized ? T(1) : (shape.align_corners ? last : n) / 2;
    shift = !shape.normalized || shape.align_corners ? T(0) : T(-0.5);
    low = shape.align_corners ? T(0) : T(-0.5);
    span = shape.align_corners ? last : n;
  }
};

constexpr double kOutside = 8;  // positions further outside of an image do not read pixels

// Clamps positions to the image; the derivative factor of positions outside becomes 0.
template <typename T>
OPWRIGHT_CPU_CLONES void Hold(int64_t n, T last, T* place, T* factor) {
  for (int64_t i = 0; i < n; ++i) {
    const T at = place[i];
    factor[i] = at > 0 && at < last ? factor[i] : T(0);
    place[i] = at > 0 ? (at < last ? at : last) : T(0);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void Reflect(int64_t n, const AxisRule<T>& rule, T* place, T* factor) {
  for (int64_t i = 0; i < n; ++i) {
    if (rule.span <= 0) {
      place[i] = factor[i] = 0;
      continue;
    }
    const T beyond = place[i] - rule.low, distance = std::abs(beyond);
    const T turns = std::floor(distance / rule.span);
    const T rest = std::fmod(distance, rule.span);
    const bool is_even = std::fmod(turns, T(2)) == 0;
    place[i] = is_even ? rest + rule.low : rule.span - rest + rule.low;
    factor[i] = (beyond < 0) == is_even ? -factor[i] : factor[i];
  }
}

template <typename T>
void Pad(const GridShape& shape, const AxisRule<T>& rule, int64_t n, T* place, T* factor) {
  if (shape.padding == GridPadding::kZeros) return;
  if (shape.padding == GridPadding::kReflection) Reflect<T>(n, rule, place, factor);
  Hold<T>(n, rule.last, place, factor);
}

// Converts integer positions to indices; positions outside the image get weight 0 and index 0.
template <typename T>
OPWRIGHT_CPU_CLONES void Index(int64_t n, T last, const T* place, T* share, T* derivative,
                               int32_t* index) {
  for (int64_t i = 0; i < n; ++i) {
    const bool is_inside = place[i] >= 0 && place[i] <= last;
    index[i] = static_cast<int32_t>(is_inside ? place[i] : T(0));
    share[i] = is_inside ? share[i] : T(0);
    derivative[i] = is_inside ? derivative[i] : T(0);
  }
}

// Converts coordinates to positions. NaN and infinite positions are replaced by finite positions
// with derivative 0.
template <typename T>
OPWRIGHT_CPU_CLONES void Locate(int64_t n, const AxisRule<T>& rule, GridPadding padding,
                                const T* grid, int32_t step, T* place, T* factor) {
  const T outside = static_cast<T>(kOutside), most = std::numeric_limits<T>::max();
  const T unknown = padding == GridPadding::kZeros ? -outside : T(0);
  const T before = padding == GridPadding::kReflection ? T(0) : -outside;
  const T behind = padding == GridPadding::kBorder ? rule.last + outside : before;
  const AxisRule<T> own = rule;  // a local copy, which no store can alias
  for (int64_t i = 0; i < n; ++i) {
    const T at = (grid[i * step] - own.begin) * own.factor + own.shift;
    const T instead = at != at ? unknown : (at > 0 ? behind : before);
    const bool is_finite = at >= -most && at <= most;
    place[i] = is_finite ? at : instead;
    factor[i] = is_finite ? own.factor : T(0);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void Split(int64_t n, const T* place, const T* factor, T* first, T* second,
                               T (*share)[kGridBlock], T (*derivative)[kGridBlock]) {
  for (int64_t i = 0; i < n; ++i) {
    first[i] = std::floor(place[i]);
    second[i] = first[i] + 1;
    share[1][i] = place[i] - first[i];
    share[0][i] = 1 - share[1][i];
    derivative[0][i] = -factor[i];
    derivative[1][i] = factor[i];
  }
}

constexpr double kCubic = -0.75;

// Computes the cubic convolution weight of the pixel at floor(position) + k, and its derivative.
template <typename T>
OPWRIGHT_CPU_CLONES void Cubic(int64_t n, int32_t k, const T* place, const T* factor, T* at,
                               T* share, T* derivative) {
  const T a = static_cast<T>(kCubic);
  const bool is_near = k == 0 || k == 1;
  const T sign = k <= 0 ? T(1) : T(-1);
  for (int64_t i = 0; i < n; ++i) {
    const T first = std::floor(place[i]);
    const T d = std::abs(place[i] - first - static_cast<T>(k));
    at[i] = first + static_cast<T>(k);
    const T near = ((a + 2) * d - (a + 3)) * d * d + 1;
    const T far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    const T near_derivative = (3 * (a + 2) * d - 2 * (a + 3)) * d;
    const T far_derivative = (3 * a * d - 10 * a) * d + 8 * a;
    share[i] = is_near ? near : far;
    derivative[i] = (is_near ? near_derivative : far_derivative) * sign * factor[i];
  }
}

// Adds an axis to pixel offsets and to products of weights.
template <typename T>
OPWRIGHT_CPU_CLONES void JoinAxis(int64_t n, int32_t size, const int32_t* index, const T* share,
                                  const int32_t* rows, const T* row_share, int32_t* offset,
                                  T* shares) {
  for (int64_t i = 0; i < n; ++i) {
    offset[i] = rows[i] * size + index[i];
    shares[i] = row_share[i] * share[i];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void Multiply(int64_t n, const T* a, const T* b, T* products) {
  for (int64_t i = 0; i < n; ++i) products[i] = a[i] * b[i];
}

template <typename T>
OPWRIGHT_CPU_CLONES void Round(int64_t n, const T* place, T* at, T* share, T* derivative) {
  for (int64_t i = 0; i < n; ++i) {
    at[i] = std::nearbyint(place[i]);
    share[i] = 1;
    derivative[i] = 0;
  }
}

}  // namespace

opwright::Status GridShape::Make(const opwright::Shape& x, const opwright::Shape& grid,
                                 const GridSampleAttrs& attrs) {
  n = x.dim(0);
  channels = x.dim(1);
  rank = x.rank() - 2;
  pixels = places = 1;
  for (int32_t i = 0; i < rank; ++i) {
    sizes[i] = x.dim(2 + i);
    pixels *= sizes[i];
    places *= grid.dim(1 + i);
  }
  mode = attrs.mode == "nearest"    ? GridMode::kNearest
         : attrs.mode == "bilinear" ? GridMode::kBilinear
                                    : GridMode::kBicubic;
  padding = attrs.padding_mode == "zeros"    ? GridPadding::kZeros
            : attrs.padding_mode == "border" ? GridPadding::kBorder
                                             : GridPadding::kReflection;
  align_corners = attrs.align_corners;
  normalized = attrs.normalized;
  if (pixels > INT32_MAX) {
    return opwright::Status::Refused("supports images of fewer than 2**31 pixels");
  }
  return opwright::Status::Ok();
}

template <typename T>
void GridTaps<T>::FillAxis(const GridShape& shape, int32_t axis, const T* grid, int64_t count) {
  const AxisRule<T> rule(shape, shape.sizes[axis]);
  Axis& taps = axes_[axis];
  T place[kGridBlock], factor[kGridBlock], at[kMaxAxisTaps][kGridBlock];
  // The first coordinate of a position belongs to the last axis.
  Locate<T>(count, rule, shape.padding, grid + (shape.rank - 1 - axis), shape.rank, place, factor);
  if (shape.mode == GridMode::kBicubic) {
    for (int32_t k = 0; k < 4; ++k) {
      T unused[kGridBlock] = {};
      Cubic<T>(count, k - 1, place, factor, at[k], taps.share[k], taps.derivative[k]);
      Pad<T>(shape, rule, count, at[k], unused);
    }
  } else {
    Pad<T>(shape, rule, count, place, factor);
    if (shape.mode == GridMode::kBilinear) {
      Split<T>(count, place, factor, at[0], at[1], taps.share, taps.derivative);
    } else {
      Round<T>(count, place, at[0], taps.share[0], taps.derivative[0]);
    }
  }
  for (int32_t k = 0; k < shape.axis_taps(); ++k) {
    Index<T>(count, rule.last, at[k], taps.share[k], taps.derivative[k], taps.index[k]);
  }
}

template <typename T>
void GridTaps<T>::Join(const GridShape& shape, int32_t tap, int64_t count, bool with_derivatives) {
  int32_t digits[3] = {};
  for (int32_t axis = shape.rank - 1, rest = tap; axis >= 0; --axis) {
    digits[axis] = rest % shape.axis_taps();
    rest /= shape.axis_taps();
  }
  const int32_t* rows = axes_[0].index[digits[0]];
  const T* row_share = axes_[0].share[digits[0]];
  for (int32_t axis = 1; axis < shape.rank; ++axis) {
    const int32_t k = digits[axis];
    JoinAxis<T>(count, static_cast<int32_t>(shape.sizes[axis]), axes_[axis].index[k],
                axes_[axis].share[k], rows, row_share, offset[tap], share[tap]);
    rows = offset[tap];
    row_share = share[tap];
  }
  for (int32_t by = 0; with_derivatives && by < shape.rank; ++by) {
    const T* product = nullptr;
    for (int32_t axis = 0; axis < shape.rank; ++axis) {
      const bool is_own = shape.rank - 1 - axis == by;
      const T* factor =
          is_own ? axes_[axis].derivative[digits[axis]] : axes_[axis].share[digits[axis]];
      if (product != nullptr) Multiply<T>(count, product, factor, derivative[tap][by]);
      product = product == nullptr ? factor : derivative[tap][by];
    }
  }
}

template <typename T>
void GridTaps<T>::Fill(const GridShape& shape, const T* grid, int64_t count,
                       bool with_derivatives) {
  for (int32_t axis = 0; axis < shape.rank; ++axis) FillAxis(shape, axis, grid, count);
  for (int32_t tap = 0; tap < shape.taps(); ++tap) Join(shape, tap, count, with_derivatives);
}

template struct GridTaps<float>;
template struct GridTaps<double>;

}  // namespace opwright_cpu
