// Padding and its gradient.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

enum Mode : int32_t { kConstant = 0, kReflect = 1, kEdge = 2, kWrap = 3 };

// The padding before and after the tensor along each axis, and the axis lengths, last axis first.
// Negative padding crops.
struct Border {
  int64_t before[kMaxRank];
  int64_t behind[kMaxRank];
  int64_t length[kMaxRank];
};

// An element of at most 16 bytes.
struct Item {
  uint64_t words[2];
};

// T is any type as wide as a contiguous chunk. The layout has the dimensions of `out` and
// the strides of `x`.
template <typename T, typename Int>
__global__ void pad(T* out, const T* x, int64_t n, Layout<1> layout, Border border, int32_t mode,
                    Item item) {
  T value;
  memcpy(&value, &item, sizeof(T));
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    Int rest = static_cast<Int>(i);
    int64_t offset = 0;
    bool is_inside = true;
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
      if (d >= layout.rank) break;
      const Int quotient = QuotientByDim<Int>(layout, d, rest);
      const auto found = static_cast<int64_t>(rest - quotient * static_cast<Int>(layout.dims[d]));
      rest = quotient;
      const int64_t last = border.length[d] - 1;
      int64_t place = found - border.before[d];
      if (mode == kConstant) {
        is_inside = is_inside && place >= 0 && place <= last;
      } else if (mode == kEdge) {
        place = place < 0 ? 0 : (place > last ? last : place);
      } else if (mode == kWrap) {
        place = place % border.length[d];
        place = place < 0 ? place + border.length[d] : place;
      } else {
        place = place < 0 ? -place : (place > last ? 2 * last - place : place);
      }
      offset += place * layout.strides[0][d];
    }
    out[i] = is_inside ? x[offset] : value;
  }
}

// The gradient of an element of x is the sum over its copies. Along each axis, copies are at the
// element's position and at positions in the padding. The layout has the dimensions of `x_grad` and
// the strides of `out_grad`. kConstant is not supported, since its gradient is a slice.
template <typename T, typename Int>
__global__ void pad_grad(T* x_grad, const T* out_grad, int64_t n, Layout<1> layout, Border border,
                         int32_t mode) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    Int rest = static_cast<Int>(i);
    // Along an axis, the copies are at first, first + 1, ... (kEdge), at first, first + length, ...
    // (kWrap), or at the element's own position and the reflected positions (kReflect), unless they
    // are cropped.
    int64_t first[kMaxRank];
    int64_t second[kMaxRank];
    int64_t third[kMaxRank];
    int64_t count[kMaxRank];
    int64_t n_places = 1;
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
      if (d >= layout.rank) break;
      const Int quotient = QuotientByDim<Int>(layout, d, rest);
      const auto place = static_cast<int64_t>(rest - quotient * static_cast<Int>(layout.dims[d]));
      rest = quotient;
      const int64_t before = border.before[d];
      const int64_t length = border.length[d];
      const int64_t last = length - 1;
      const int64_t end = before + last + border.behind[d];  // position of the last copy
      const int64_t own = before + place;
      count[d] = 0;
      if (mode == kEdge) {
        const int64_t low = place == 0 || own < 0 ? 0 : own;
        const int64_t high = place == last || own > end ? end : own;
        const bool is_shown = (place == 0 || own <= end) && (place == last || own >= 0);
        first[d] = low;
        count[d] = is_shown && high >= low ? high - low + 1 : 0;
      } else if (mode == kWrap) {
        first[d] = own % length;
        first[d] = first[d] < 0 ? first[d] + length : first[d];
        count[d] = first[d] <= end ? (end - first[d]) / length + 1 : 0;
      } else {
        const bool is_own = own >= 0 && own <= end;
        const bool is_before = place >= 1 && place <= before && before - place <= end;
        const int64_t mirrored = before + 2 * last - place;
        const bool is_behind = place < last && mirrored <= end && mirrored >= 0;
        third[d] = mirrored;
        second[d] = is_own && is_before ? before - place : mirrored;
        first[d] = is_own ? own : (is_before ? before - place : mirrored);
        count[d] = (is_own ? 1 : 0) + (is_before ? 1 : 0) + (is_behind ? 1 : 0);
      }
      n_places *= count[d];
    }
    Compute<T> sum = 0;
    for (int64_t k = 0; k < n_places; ++k) {
      int64_t left = k;
      int64_t offset = 0;
#pragma unroll
      for (int d = 0; d < kMaxRank; ++d) {
        if (d >= layout.rank) break;
        int64_t choice = 0;
        if (count[d] > 1) {
          choice = left % count[d];
          left /= count[d];
        }
        int64_t place = first[d];
        if (choice > 0) {
          if (mode == kReflect) {
            place = choice == 1 ? second[d] : third[d];
          } else {
            place += mode == kEdge ? choice : choice * border.length[d];
          }
        }
        offset += place * layout.strides[0][d];
      }
      sum += Load(out_grad[offset]);
    }
    x_grad[i] = Store<T>(sum);
  }
}
