#include "indexing/axis_walk.h"

namespace opwright_cpu {
namespace {

// Appends an axis, or merges it with the last axis if both are contiguous in all three tensors.
void Append(std::vector<WalkAxis>* axes, const WalkAxis& axis) {
  if (axis.length == 1) return;
  if (!axes->empty()) {
    WalkAxis& last = axes->back();
    if (last.x == axis.x * axis.length && last.index == axis.index * axis.length &&
        last.other == axis.other * axis.length) {
      last = WalkAxis{last.length * axis.length, axis.x, axis.index, axis.other};
      return;
    }
  }
  axes->push_back(axis);
}

}  // namespace

AxisWalk::AxisWalk(std::vector<WalkAxis> axes, size_t axis, int64_t count)
    : axis_(axes[axis]), count_(count) {
  std::vector<WalkAxis> inner;
  for (size_t i = 0; i < axis; ++i) Append(&groups_, axes[i]);
  for (size_t i = axis + 1; i < axes.size(); ++i) Append(&inner, axes[i]);
  if (!inner.empty()) {
    row_ = inner.back();
    inner.pop_back();
  }
  groups_.insert(groups_.end(), inner.begin(), inner.end());
  for (const WalkAxis& group : groups_) n_groups_ *= group.length;
}

bool AxisWalk::IsRepeatedInX() const {
  for (const WalkAxis& group : groups_) {
    if (group.x == 0) return true;
  }
  return false;
}

AxisWalk::Share AxisWalk::ShareOfX(int32_t thread, int32_t n_threads) const {
  Share share{Part{0, n_groups_}, Part{0, row_.length}, Part{0, axis_.length}, Part{0, count_}};
  if (n_groups_ >= n_threads && !IsRepeatedInX()) {
    share.groups = PartOf(n_groups_, 1, thread, n_threads);
  } else if (row_.length >= 64 * n_threads && row_.x != 0) {
    share.columns = PartOf(row_.length, 16, thread, n_threads);
  } else {
    share.positions = PartOf(count_, 1, thread, n_threads);
  }
  return share;
}

AxisWalk::Share AxisWalk::ShareOfOther(int32_t thread, int32_t n_threads) const {
  Share share{Part{0, n_groups_}, Part{0, row_.length}, Part{0, axis_.length}, Part{0, count_}};
  if (n_groups_ >= n_threads) {
    share.groups = PartOf(n_groups_, 1, thread, n_threads);
  } else if (axis_.length >= n_threads) {
    share.along = PartOf(axis_.length, 1, thread, n_threads);
  } else {
    share.columns = PartOf(row_.length, 16, thread, n_threads);
  }
  return share;
}

}  // namespace opwright_cpu
