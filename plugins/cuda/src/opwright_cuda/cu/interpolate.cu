// Resizes images. A thread computes one output or, in the gradient, one pixel from the outputs that
// read it.
#include "kernel.h"

using namespace opwright_cuda;

// One spatial axis.
struct ResizedAxis {
  int32_t size;
  int32_t count;  // length of the output axis
};

// Images of [n, height, width, channels]; channels-first images are treated as single-channel
// images.
struct Resizing {
  ResizedAxis h;
  ResizedAxis w;
  int32_t channels;
  int32_t is_nearest;
  int32_t aligns_corners;
  int32_t unused;
  int64_t n_outputs;
  int64_t n_pixels;
};

// The two input elements around an output position, and the weight of the second element.
struct Between {
  int32_t first;
  int32_t second;
  double share;
};

// Positions are fractions of integers, so nothing is rounded before the weight is computed.
OW_INLINE Between PlaceAt(int32_t i, const ResizedAxis& axis, const Resizing& r) {
  if (r.is_nearest) {
    const auto at = static_cast<int32_t>(int64_t(i) * axis.size / axis.count);
    return {at, at, 0.0};
  }
  int64_t over = int64_t(i) * (axis.size - 1);
  int64_t under = axis.count > 1 ? axis.count - 1 : 1;
  if (!r.aligns_corners) {
    over = (2 * int64_t(i) + 1) * axis.size - axis.count;
    if (over < 0) over = 0;
    under = 2 * int64_t(axis.count);
  }
  const auto first = static_cast<int32_t>(over / under);
  // Elements of weight 0 are not read, because they may be NaN.
  return {first, over % under == 0 ? first : min(first + 1, axis.size - 1),
          static_cast<double>(over % under) / static_cast<double>(under)};
}

// Returns the first output position that reads no element before `element`.
OW_INLINE int32_t FirstPlace(int32_t element, const ResizedAxis& axis, const Resizing& r) {
  int32_t begin = 0;
  int32_t end = axis.count;
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    if (PlaceAt(middle, axis, r).first >= element) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

template <typename Value>
OW_INLINE Value ShareOf(int32_t element, const Between& at) {
  const auto share = static_cast<Value>(at.share);
  Value sum = at.first == element ? 1 - share : Value(0);
  if (at.second == element) sum += share;
  return sum;
}

template <typename Value>
OW_INLINE Value Mix(Value a, Value b, Value share) {
  return share == Value(0) ? a : a * (1 - share) + b * share;
}

template <typename T>
__global__ void resize(T* out, const T* x, Resizing r) {
  using Value = Compute<T>;
  for (int64_t i = GlobalIndex(); i < r.n_outputs; i += GridThreads()) {
    const int64_t pixel = i / r.channels;
    const int64_t row = pixel / r.w.count;
    const Between h = PlaceAt(static_cast<int32_t>(row % r.h.count), r.h, r);
    const Between w = PlaceAt(static_cast<int32_t>(pixel % r.w.count), r.w, r);
    const T* image = x + row / r.h.count * r.h.size * r.w.size * r.channels + i % r.channels;
    const auto at = [&](int32_t y, int32_t z) {
      return image[(int64_t(y) * r.w.size + z) * r.channels];
    };
    if (r.is_nearest) {
      out[i] = at(h.first, w.first);
      continue;
    }
    const auto down = static_cast<Value>(h.share);
    const auto across = static_cast<Value>(w.share);
    const Value left = Mix<Value>(Load(at(h.first, w.first)), Load(at(h.second, w.first)), down);
    const Value right = Mix<Value>(Load(at(h.first, w.second)), Load(at(h.second, w.second)), down);
    out[i] = Store<T>(Mix(left, right, across));
  }
}

template <typename T>
__global__ void resize_grad(T* x_grad, const T* out_grad, Resizing r) {
  using Value = Compute<T>;
  for (int64_t i = GlobalIndex(); i < r.n_pixels; i += GridThreads()) {
    const int64_t pixel = i / r.channels;
    const int64_t row = pixel / r.w.size;
    const auto y = static_cast<int32_t>(row % r.h.size);
    const auto z = static_cast<int32_t>(pixel % r.w.size);
    const T* image =
        out_grad + row / r.h.size * r.h.count * r.w.count * r.channels + i % r.channels;
    const int32_t before = r.is_nearest ? 0 : 1;
    const int32_t top = FirstPlace(y - before, r.h, r);
    const int32_t bottom = FirstPlace(y + 1, r.h, r);
    const int32_t left = FirstPlace(z - before, r.w, r);
    const int32_t right = FirstPlace(z + 1, r.w, r);
    Value sum = 0;
    for (int32_t h = top; h < bottom; ++h) {
      const Value down = ShareOf<Value>(y, PlaceAt(h, r.h, r));
      for (int32_t w = left; w < right; ++w) {
        const Value grad = Load(image[(int64_t(h) * r.w.count + w) * r.channels]);
        const Value share = down * ShareOf<Value>(z, PlaceAt(w, r.w, r));
        if (share != Value(0)) sum += grad * share;
      }
    }
    x_grad[i] = Store<T>(sum);
  }
}
