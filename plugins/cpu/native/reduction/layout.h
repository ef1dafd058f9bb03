// Shapes that are collapsed to few loops in Prepare, for Run.
#ifndef OPWRIGHT_CPU_REDUCTION_LAYOUT_H_
#define OPWRIGHT_CPU_REDUCTION_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <opwright/sdk/shape.hpp>
#include <vector>

namespace opwright_cpu {

// An array as [outer, length, inner], where the middle axis is the axis of the kernel.
struct Lines {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;

  int64_t count() const { return outer * inner; }
  int64_t numel() const { return outer * length * inner; }
};

// Returns the array index of an element of a line; lines and elements are counted in memory order.
inline int64_t PlaceOf(const Lines& lines, int64_t line, int64_t element) {
  return (line / lines.inner * lines.length + element) * lines.inner + line % lines.inner;
}

// A run of adjacent axes, which are either all reduced or all kept.
struct Span {
  int64_t size;
  bool reduced;
};

inline int64_t Product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= dims[i];
  return product;
}

inline size_t FromFront(int64_t axis, int32_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

// Returns the lines along an axis; a 0-d array is one line of one element.
inline Lines LinesAlong(const opwright::Shape& shape, int64_t axis) {
  if (shape.rank() == 0) return Lines{};
  const size_t at = FromFront(axis, shape.rank());
  const std::vector<int64_t>& dims = shape.dims();
  return Lines{Product(dims, 0, at), dims[at], Product(dims, at + 1, dims.size())};
}

// Returns for each axis whether it is reduced; an empty list means all axes. An axis may be given
// even if the array is 0-d.
inline std::vector<bool> ReducedAxes(const std::vector<int64_t>& axes, int32_t rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), axes.empty());
  for (int64_t axis : axes) {
    if (rank > 0) reduced[FromFront(axis, rank)] = true;
  }
  return reduced;
}

// Returns the axes along which an array of shape `small` is repeated to get the shape `large`.
inline std::vector<bool> RepeatedAxes(const opwright::Shape& small, const opwright::Shape& large) {
  const size_t added = large.dims().size() - small.dims().size();
  std::vector<bool> repeated(large.dims().size(), true);
  for (size_t i = added; i < repeated.size(); ++i) {
    repeated[i] = small.dims()[i - added] == 1 && large.dims()[i] != 1;
  }
  return repeated;
}

// Merges adjacent axes that are all reduced or all kept, and drops axes of length 1.
inline std::vector<Span> Collapse(const std::vector<int64_t>& dims,
                                  const std::vector<bool>& reduced) {
  std::vector<Span> spans;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!spans.empty() && spans.back().reduced == reduced[i]) {
      spans.back().size *= dims[i];
    } else {
      spans.push_back(Span{dims[i], reduced[i]});
    }
  }
  return spans;
}

// Estimates the duration at about 10 GB/s per thread; a small amount of work runs in one thread.
inline uint64_t StreamNs(int64_t bytes, int32_t n_threads) {
  const int64_t threads = bytes > 256 * 1024 ? std::max(n_threads, 1) : 1;
  return static_cast<uint64_t>(20 + bytes / (10 * threads));
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_LAYOUT_H_
