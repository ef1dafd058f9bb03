// The operands of the matrix products of a convolution: images, weights and gradients, as implicit
// matrices for tiles.h.
//
// A tap is one element of a filter, at a channel of the group, and a slice, a row and a column of
// the kernel. Images without a depth axis have depth 1; their kernels, in which `deep` is false,
// omit slices.
#ifndef OPWRIGHT_CUDA_CONVOLUTION_H_
#define OPWRIGHT_CUDA_CONVOLUTION_H_

#include "tiles.h"

namespace opwright_cuda {

// Strides of images, in elements.
struct ImageStrides {
  int64_t image;
  int64_t channel;
  int64_t d;
  int64_t h;
  int64_t w;
};

// Splits a number into four digits. The first digit is unbounded, the second is for slices.
struct Digits {
  Divider outer;
  Divider middle;
  Divider inner;
};

struct Convolution {
  ImageStrides x;
  ImageStrides out;
  int64_t n_windows;
  int64_t n_pixels;
  int32_t channels;  // channels per group
  int32_t filters;   // filters per group
  int32_t kernel_d;
  int32_t kernel_h;
  int32_t kernel_w;
  int32_t depth;  // depth of x
  int32_t height;
  int32_t width;
  int32_t out_depth;
  int32_t out_height;
  int32_t out_width;
  int32_t stride_d;
  int32_t stride_h;
  int32_t stride_w;
  int32_t front;
  int32_t top;
  int32_t left;
  int32_t dilation_d;
  int32_t dilation_h;
  int32_t dilation_w;
  int32_t is_channels_last;
  Digits windows;       // image, slice, row, column
  Digits pixels;        // image, slice, row, column
  Digits channel_taps;  // channel, slice, row, column; channel last if channels are last
  Digits filter_taps;   // like channel_taps, with filters instead of channels
  Divider by_stride_d;
  Divider by_stride_h;
  Divider by_stride_w;
};

struct Quadruple {
  int32_t first;
  int32_t slice;
  int32_t middle;
  int32_t last;
};

template <bool deep>
OW_INLINE Quadruple TakeApart(int64_t number, Digits digits) {
  const auto whole = static_cast<uint32_t>(number);
  const uint32_t upper = QuotientOf(whole, digits.inner);
  const uint32_t slices = QuotientOf(upper, digits.middle);
  const auto middle = static_cast<int32_t>(upper - slices * digits.middle.divisor);
  const auto last = static_cast<int32_t>(whole - upper * digits.inner.divisor);
  if constexpr (!deep) return {static_cast<int32_t>(slices), 0, middle, last};
  const uint32_t first = QuotientOf(slices, digits.outer);
  return {static_cast<int32_t>(first), static_cast<int32_t>(slices - first * digits.outer.divisor),
          middle, last};
}

struct Tap {
  int32_t channel;  // index of a channel or filter
  int32_t d;
  int32_t h;
  int32_t w;
};

template <bool deep>
OW_INLINE Tap TapAt(int64_t number, Digits digits, const Convolution& c) {
  const Quadruple t = TakeApart<deep>(number, digits);
  if (!c.is_channels_last) return {t.first, t.slice, t.middle, t.last};
  if constexpr (!deep) return {t.last, 0, t.first, t.middle};
  return {t.last, t.first, t.slice, t.middle};
}

// Returns the offset of a window in `out`.
template <bool deep>
OW_INLINE int64_t OffsetOfWindow(int64_t window, const Convolution& c) {
  const Quadruple at = TakeApart<deep>(window, c.windows);
  const int64_t in_slice = at.first * c.out.image + at.middle * c.out.h + at.last * c.out.w;
  return deep ? in_slice + at.slice * c.out.d : in_slice;
}

// Returns the offset of a tap of a filter in the weight [filters, channels, slices, rows, columns].
template <bool deep>
OW_INLINE int64_t OffsetInWeight(int64_t filter, int64_t channel, Tap tap, const Convolution& c) {
  int64_t slice = filter * c.channels + channel;
  if constexpr (deep) slice = slice * c.kernel_d + tap.d;
  return (slice * c.kernel_h + tap.h) * c.kernel_w + tap.w;
}

// Returns the number of taps per channel.
OW_INLINE int64_t KernelSize(const Convolution& c) {
  return int64_t(c.kernel_d) * c.kernel_h * c.kernel_w;
}

// The elements of x that windows cover.
template <typename T, bool deep>
struct Covered {
  using Value = Compute<T>;
  const T* x;
  const Convolution& c;

  OW_INLINE Place OfWindow(int64_t window) const {
    const Quadruple at = TakeApart<deep>(window, c.windows);
    return Make(at.first * c.x.image, at.slice * c.stride_d - c.front,
                at.middle * c.stride_h - c.top, at.last * c.stride_w - c.left);
  }
  OW_INLINE Place OfTap(int64_t number) const {
    const Tap tap = TapAt<deep>(number, c.channel_taps, c);
    return Make(tap.channel * c.x.channel, tap.d * c.dilation_d, tap.h * c.dilation_h,
                tap.w * c.dilation_w);
  }
  OW_INLINE Value At(Place a, Place b) const {
    const Place at = Sum(a, b);
    bool is_inside = static_cast<uint32_t>(at.h) < static_cast<uint32_t>(c.height) &&
                     static_cast<uint32_t>(at.w) < static_cast<uint32_t>(c.width);
    if constexpr (deep) {
      is_inside = is_inside && static_cast<uint32_t>(at.d) < static_cast<uint32_t>(c.depth);
    }
    return is_inside ? Load(x[at.offset]) : Value(0);
  }

 private:
  OW_INLINE Place Make(int64_t offset, int32_t d, int32_t h, int32_t w) const {
    const int64_t in_slice = offset + h * c.x.h + w * c.x.w;
    if constexpr (!deep) return {in_slice, h, w, 0};
    return {in_slice + d * c.x.d, h, w, d};
  }
};

template <typename T, bool deep>
struct WindowsByTaps : Covered<T, deep> {
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return this->OfWindow(row); }
  OW_INLINE Place Step(int64_t step) const { return this->OfTap(step); }
};

template <typename T, bool deep>
struct TapsByWindows : Covered<T, deep> {
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return this->OfTap(row); }
  OW_INLINE Place Step(int64_t step) const { return this->OfWindow(step); }
};

// The gradients of the windows that cover a pixel with a tap.
template <typename T, bool deep>
struct PixelsByTaps {
  using Value = Compute<T>;
  const T* out_grad;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const {
    const Quadruple at = TakeApart<deep>(row, c.pixels);
    const int32_t d = deep ? at.slice + c.front : 0;
    return {at.first * c.out.image, at.middle + c.top, at.last + c.left, d};
  }
  OW_INLINE Place Step(int64_t step) const {
    const Tap tap = TapAt<deep>(step, c.filter_taps, c);
    const int32_t d = deep ? -tap.d * c.dilation_d : 0;
    return {tap.channel * c.out.channel, -tap.h * c.dilation_h, -tap.w * c.dilation_w, d};
  }
  OW_INLINE Value At(Place row, Place step) const {
    const Place at = Sum(row, step);
    if (at.h < 0 || at.w < 0) return Value(0);
    const auto h = static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(at.h), c.by_stride_h));
    const auto w = static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(at.w), c.by_stride_w));
    bool is_window =
        h * c.stride_h == at.h && w * c.stride_w == at.w && h < c.out_height && w < c.out_width;
    int64_t offset = at.offset + h * c.out.h + w * c.out.w;
    if constexpr (deep) {
      if (at.d < 0) return Value(0);
      const auto d = static_cast<int32_t>(QuotientOf(static_cast<uint32_t>(at.d), c.by_stride_d));
      is_window = is_window && d * c.stride_d == at.d && d < c.out_depth;
      offset += d * c.out.d;
    }
    return is_window ? Load(out_grad[offset]) : Value(0);
  }
};

// The weight of a group, with filters or channels as rows.
template <typename T, bool of_filters, bool deep>
struct WeightSource {
  using Value = Compute<T>;
  const T* weight;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const {
    const Tap none{0, 0, 0, 0};
    const int64_t offset =
        of_filters ? OffsetInWeight<deep>(row, 0, none, c) : OffsetInWeight<deep>(0, row, none, c);
    return {offset, 0, 0, 0};
  }
  OW_INLINE Place Step(int64_t step) const {
    const Tap tap = TapAt<deep>(step, of_filters ? c.channel_taps : c.filter_taps, c);
    const int64_t offset = of_filters ? OffsetInWeight<deep>(0, tap.channel, tap, c)
                                      : OffsetInWeight<deep>(tap.channel, 0, tap, c);
    return {offset, 0, 0, 0};
  }
  OW_INLINE Value At(Place row, Place step) const {
    return row.h + step.h >= 0 ? Load(weight[row.offset + step.offset]) : Value(0);
  }
};

// The gradients of windows, with filters as rows.
template <typename T, bool deep>
struct FiltersByWindows {
  using Value = Compute<T>;
  const T* out_grad;
  const Convolution& c;
  bool goes_along_steps;
  int64_t n_rows;

  OW_INLINE Place Row(int64_t row) const { return {row * c.out.channel, 0, 0, 0}; }
  OW_INLINE Place Step(int64_t step) const { return {OffsetOfWindow<deep>(step, c), 0, 0, 0}; }
  OW_INLINE Value At(Place row, Place step) const {
    return row.h + step.h >= 0 ? Load(out_grad[row.offset + step.offset]) : Value(0);
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CONVOLUTION_H_
