// Where elements lie that an index names: rows by several positions, elements by one along an axis.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

constexpr int kMaxIndexed = 32;

// The axes that the vectors of an index name; a text for each, what is reported of its positions.
struct IndexedAxes {
  int64_t dims[kMaxIndexed];
  int32_t texts[kMaxIndexed];
  int32_t k;
};

// Of n vectors of k positions the places of their rows of `row` elements: one place for each
// element, in order. Of a position out of range, which is reported, the first row.
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

// The place in x of an element of the index; -1 where it is out of range, which is reported.
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

// The layout has the dimensions of `places` and the strides of x, 0 along the axis of the
// positions, and of the index; `step` is the distance of two positions in x.
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

// Of the same dimensions the elements of x; 0 for a position out of range.
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
