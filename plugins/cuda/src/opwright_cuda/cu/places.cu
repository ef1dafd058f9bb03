// Computes flat indices from index tensors, which contain index vectors or indices along an axis.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

constexpr int kMaxIndexed = 32;

// The indexed axes, with a fault text for each.
struct IndexedAxes {
  int64_t dims[kMaxIndexed];
  int32_t texts[kMaxIndexed];
  int32_t k;
};

// Computes flat indices of the rows that n vectors of k indices select. A row has `row` elements,
// with one flat index per element, in order. An index that is out of range is reported and yields
// the first row.
template <typename Index>
__global__ void row_places(int64_t* places, const Index* index, int64_t n, int64_t row,
                           IndexedAxes axes, Fault* fault) {
  for (int64_t i = GlobalIndex(); i < n * row; i += GridThreads()) {
    const int64_t vector = i / row;
    const Index* positions = index + vector * axes.k;
    int64_t number = 0;
    bool is_right = true;
    for (int c = 0; c < axes.k; ++c) {
      const auto position = static_cast<int64_t>(positions[c]);
      const int64_t dim = axes.dims[c];
      if (position < -dim || position >= dim) {
        Report(fault, axes.texts[c], position);
        is_right = false;
      }
      number = number * dim + (position < 0 ? position + dim : position);
    }
    places[i] = (is_right ? number : 0) * row + (i - vector * row);
  }
}

// Returns the flat position in x that `given`, an element of the index, selects. An index that is
// out of range is reported and yields -1.
template <typename Index>
OW_INLINE int64_t PlaceIn(int64_t line, Index given, int64_t count, int64_t step, Fault* fault,
                          int32_t text) {
  auto position = static_cast<int64_t>(given);
  if (position < -count || position >= count) {
    Report(fault, text, position);
    return -1;
  }
  if (position < 0) position += count;
  return line + position * step;
}

// The layout has the dimensions of `places` and the strides of x (0 along the indexed axis) and of
// the index. `step` is the stride of the indexed axis in x.
template <typename Index, typename Int>
__global__ void element_places(int64_t* places, const Index* index, int64_t n, Layout<2> layout,
                               int64_t count, int64_t step, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    int64_t offsets[2];
    Locate<Int>(layout, i, offsets);
    const int64_t place = PlaceIn(offsets[0], index[offsets[1]], count, step, fault, text);
    places[i] = place < 0 ? 0 : place;
  }
}

// Copies the selected elements of x, with the same layout; an index out of range yields 0.
template <typename T, typename Index, typename Int>
__global__ void take_along_axis(T* out, const T* x, const Index* index, int64_t n, Layout<2> layout,
                                int64_t count, int64_t step, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    int64_t offsets[2];
    Locate<Int>(layout, i, offsets);
    const int64_t place = PlaceIn(offsets[0], index[offsets[1]], count, step, fault, text);
    out[i] = place < 0 ? T(0) : x[place];
  }
}
