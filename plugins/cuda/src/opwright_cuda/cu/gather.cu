// gather: copies the slices that an index selects.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// Copies the slices of x [outer, count, row] at `index` to out [outer, indices, row]; the
// dimensions of out are in the layout. T is any type as wide as a contiguous chunk. Valid indices
// are in [least, count), and negative indices count from the end. Other indices are reported and
// yield 0; the index `zero_at` also yields 0.
template <typename T, typename Index, typename Int>
__global__ void gather(T* out, const T* x, const Index* index, int64_t n, Layout<0> layout,
                       int64_t least, int64_t count, int64_t zero_at, Fault* fault, int32_t text) {
  const int64_t row = layout.dims[0];
  const int64_t n_positions = layout.dims[1];
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const Int slice = QuotientByDim<Int>(layout, 0, static_cast<Int>(i));
    const Int outer = QuotientByDim<Int>(layout, 1, slice);
    const int64_t place = i - static_cast<int64_t>(slice) * row;
    const int64_t which = static_cast<int64_t>(slice) - static_cast<int64_t>(outer) * n_positions;
    auto position = static_cast<int64_t>(index[which]);
    T value = {};
    if (position < least || position >= count) {
      if (place == 0) Report(fault, text, position);
    } else {
      if (position < 0) position += count;
      const int64_t from = static_cast<int64_t>(outer) * count + position;
      if (position != zero_at) value = x[from * row + place];
    }
    out[i] = value;
  }
}
