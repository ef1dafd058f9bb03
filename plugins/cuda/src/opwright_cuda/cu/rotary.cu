// rotary_embedding and its gradient.
#include "kernel.h"

using namespace opwright_cuda;

// The dimensions of x [outer, t, size] and of the tables [positions, half]. Each row of `index`
// applies to `repeats` adjacent indices of outer, or a single row applies to all.
struct Rotary {
  int64_t n;  // number of elements of x
  int64_t t;
  int64_t size;
  int64_t half;
  int64_t positions;
  int64_t repeats;
  int32_t shares_index;  // nonzero if one row of positions applies to all
  int32_t interleaved;
  int32_t sign;
};

// A thread computes single elements. A position out of range is reported and not rotated.
template <typename T, typename Index>
__global__ void rotate(T* out, const T* x, const T* cos, const T* sin, const Index* index,
                       Rotary shape, Fault* fault, int32_t text) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < shape.n; i += GridThreads()) {
    const int64_t row = i / shape.size, place = i - row * shape.size;
    const int64_t outer = row / shape.t, step = row - outer * shape.t;
    int64_t position = step;
    if (index != nullptr) {
      const int64_t line = shape.shares_index != 0 ? 0 : outer / shape.repeats;
      position = static_cast<int64_t>(index[line * shape.t + step]);
    }
    const bool is_known = position >= 0 && position < shape.positions;
    if (!is_known && place == 0) Report(fault, text, position);
    if (!is_known || place >= 2 * shape.half) {
      out[i] = x[i];
      continue;
    }
    const bool is_second = shape.interleaved != 0 ? place % 2 == 1 : place >= shape.half;
    const int64_t pair = shape.interleaved != 0 ? place / 2 : place % shape.half;
    const int64_t across = shape.interleaved != 0 ? 1 : shape.half;
    const int64_t at = position * shape.half + pair;
    const C other = Load(x[is_second ? i - across : i + across]);
    const C turned = other * (Load(sin[at]) * C(is_second ? shape.sign : -shape.sign));
    out[i] = Store<T>(Load(x[i]) * Load(cos[at]) + turned);
  }
}
