// Visits elements at positions along an axis, for take_along_axis, scatter and scatter_nd.
#ifndef OPWRIGHT_CPU_INDEXING_AXIS_WALK_H_
#define OPWRIGHT_CPU_INDEXING_AXIS_WALK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "indexing/positions.h"

namespace opwright_cpu {

// An axis of the index, and the strides, in items, of three tensors along it. The tensors are x, to
// which positions refer, the index, and the other tensor, which has the shape of the index (the
// output of a lookup, or the updates of a scatter). For the indexed axis, `x` is the stride between
// two positions.
struct WalkAxis {
  int64_t length;
  int64_t x;
  int64_t index;
  int64_t other;
};

class AxisWalk {
 public:
  // The share of one thread: ranges of line groups, of columns in their rows, and of positions.
  struct Share {
    Part groups;
    Part columns;
    Part along;      // range along the indexed axis; complete if elements may be written twice
    Part positions;  // positions of x
  };

  AxisWalk() = default;
  // Valid positions along axes[axis] are in [-count, count).
  AxisWalk(std::vector<WalkAxis> axes, size_t axis, int64_t count);

  bool is_empty() const { return n_groups_ * axis_.length * row_.length == 0; }

  // Returns the share of a thread that writes x. Each element of x is written by one thread, in the
  // order of the index.
  Share ShareOfX(int32_t thread, int32_t n_threads) const;
  // Returns the share of a thread that only reads x.
  Share ShareOfOther(int32_t thread, int32_t n_threads) const;

  // Calls function(offset in x, offset in the other tensor) for each element of a share, in reverse
  // order along the axis if kReverse. Stops and returns false at the first position that is out of
  // range.
  template <bool kReverse, typename Index, typename Function>
  bool Visit(const Index* index, const Share& share, const Function& function) const {
    for (int64_t group = share.groups.begin; group < share.groups.end; ++group) {
      const Place place = PlaceOf(group);
      if (!VisitGroup<kReverse>(index, place, share, function)) return false;
    }
    return true;
  }

 private:
  struct Place {
    int64_t x = 0;
    int64_t index = 0;
    int64_t other = 0;
  };

  Place PlaceOf(int64_t group) const {
    Place place;
    for (size_t i = groups_.size(); i-- > 0;) {
      const WalkAxis& axis = groups_[i];
      const int64_t at = i == 0 ? group : group % axis.length;
      if (i > 0) group /= axis.length;
      place.x += at * axis.x;
      place.index += at * axis.index;
      place.other += at * axis.other;
    }
    return place;
  }

  template <bool kReverse, typename Index, typename Function>
  bool VisitGroup(const Index* index, const Place& place, const Share& share,
                  const Function& function) const {
    const int64_t n = share.along.end - share.along.begin;
    const int64_t first = kReverse ? share.along.end - 1 : share.along.begin;
    const int64_t step = kReverse ? -1 : 1;
    const Index* row = index + place.index + first * axis_.index;
    int64_t other = place.other + first * axis_.other;
    if (row_.length == 1) {
      const WalkAxis line{n, 0, step * axis_.index, step * axis_.other};
      return VisitLine(line, row, place.x, other, share.positions, function);
    }
    const int64_t begin = share.columns.begin;
    WalkAxis line = row_;
    line.length = share.columns.end - begin;
    for (int64_t k = 0; k < n; ++k) {
      if (row_.index == 0) {
        if (!VisitSlice(*row, place.x, other, share, function)) return false;
      } else if (!VisitLine(line, row + begin * line.index, place.x + begin * line.x,
                            other + begin * line.other, share.positions, function)) {
        return false;
      }
      row += step * axis_.index;
      other += step * axis_.other;
    }
    return true;
  }

  // Visits a line in which each element has its own position. The loop's inputs are copied to local
  // variables, since the compiler would otherwise have to reload them after each write of
  // `function`.
  template <typename Index, typename Function>
  OPWRIGHT_CPU_INLINE bool VisitLine(WalkAxis line, const Index* index, int64_t x, int64_t other,
                                     Part positions, Function function) const {
    const int64_t count = count_;
    const int64_t distance = axis_.x;
    if (positions.end - positions.begin < count) {
      return VisitOwned(line, index, x, other, positions, function);
    }
    for (int64_t j = 0; j < line.length; ++j) {
      const int64_t at = FromFront(static_cast<int64_t>(index[j * line.index]), count);
      if (at < 0 || at >= count) return false;
      function(x + j * line.x + at * distance, other + j * line.other);
    }
    return true;
  }

  // Visits a line in which other threads own some positions. One branch per position would dominate
  // the cost, because the processor cannot predict the owner of the next position. Instead, each
  // thread first lists its own positions of a block.
  template <typename Index, typename Function>
  OPWRIGHT_CPU_INLINE bool VisitOwned(WalkAxis line, const Index* index, int64_t x, int64_t other,
                                      Part positions, Function function) const {
    constexpr int64_t kBlock = 256;
    const auto count = static_cast<uint64_t>(count_);
    const auto n_owned = static_cast<uint64_t>(positions.end - positions.begin);
    const int64_t distance = axis_.x;
    int64_t places[kBlock], others[kBlock];
    for (int64_t begin = 0; begin < line.length; begin += kBlock) {
      const int64_t end = begin + kBlock < line.length ? begin + kBlock : line.length;
      int64_t n = 0;
      bool is_right = true;
      for (int64_t j = begin; j < end; ++j) {
        const int64_t at = FromFront(static_cast<int64_t>(index[j * line.index]), count_);
        places[n] = x + j * line.x + at * distance;
        others[n] = other + j * line.other;
        n += static_cast<uint64_t>(at - positions.begin) < n_owned;
        is_right &= static_cast<uint64_t>(at) < count;
      }
      for (int64_t i = 0; i < n; ++i) function(places[i], others[i]);
      if (!is_right) return false;
    }
    return true;
  }

  // Visits a row in which all elements have the same position.
  template <typename Index, typename Function>
  bool VisitSlice(Index given, int64_t x, int64_t other, const Share& share,
                  const Function& function) const {
    const auto position = static_cast<int64_t>(given);
    if (position < -count_ || position >= count_) return false;
    const int64_t at = FromFront(position, count_);
    if (at < share.positions.begin || at >= share.positions.end) return true;
    const int64_t begin = x + at * axis_.x;
    if (row_.x == 1 && row_.other == 1) {
      for (int64_t j = share.columns.begin; j < share.columns.end; ++j) {
        function(begin + j, other + j);
      }
      return true;
    }
    for (int64_t j = share.columns.begin; j < share.columns.end; ++j) {
      function(begin + j * row_.x, other + j * row_.other);
    }
    return true;
  }

  bool IsRepeatedInX() const;

  std::vector<WalkAxis> groups_;
  WalkAxis axis_{1, 0, 0, 0};
  WalkAxis row_{1, 0, 0, 0};  // the innermost axis, unless it is the indexed axis
  int64_t count_ = 0;
  int64_t n_groups_ = 1;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_AXIS_WALK_H_
