#include "movement/border.h"

#include <algorithm>

#include "movement/tensors.h"

namespace opwright_cpu {

Border::Border(BorderMode mode, int64_t item_bytes, const std::vector<int64_t>& box,
               const std::vector<int64_t>& before, const std::vector<int64_t>& whole, uint64_t item,
               const std::vector<int64_t>& from)
    : mode_(mode),
      item_bytes_(item_bytes),
      item_(item),
      whole_bytes_(Product(whole, 0, whole.size()) * item_bytes),
      box_(box),
      before_(before),
      whole_(whole),
      strides_(CompactStrides(whole)) {
  std::vector<CopyAxis> axes;
  for (size_t i = 0; i < box.size(); ++i) {
    strides_[i] *= item_bytes;
    axes.push_back(CopyAxis{box[i], from[i] * item_bytes, strides_[i]});
    center_offset_ += before[i] * strides_[i];
  }
  center_ = StridedCopy(item_bytes, std::move(axes));
  for (size_t axis = box.size(); axis-- > 0;) {
    const int64_t begin = before[axis];
    const int64_t end = begin + box[axis];
    if (mode == BorderMode::kWrap) {
      // Each copy of the box is made from the adjacent copy.
      for (int64_t to = begin; to > 0; to -= box[axis]) {
        const int64_t from = std::max<int64_t>(to - box[axis], 0);
        AddSide(axis, from, to - from, from + box[axis], 1);
      }
      for (int64_t from = end; from < whole[axis]; from += box[axis]) {
        AddSide(axis, from, std::min(box[axis], whole[axis] - from), from - box[axis], 1);
      }
      continue;
    }
    const bool reflect = mode == BorderMode::kReflect;
    // Reflect mode reads backward from the element after the first one, or before the last one;
    // edge mode repeats one element.
    AddSide(axis, 0, begin, reflect ? 2 * begin : begin, reflect ? -1 : 0);
    AddSide(axis, end, whole[axis] - end, reflect ? end - 2 : end - 1, reflect ? -1 : 0);
  }
}

void Border::AddSide(size_t axis, int64_t begin, int64_t width, int64_t source,
                     int64_t source_step) {
  if (width == 0) return;
  const bool constant = mode_ == BorderMode::kConstant;
  Side side{StridedCopy(), 0, 0};
  std::vector<CopyAxis> axes;
  for (size_t i = 0; i < whole_.size(); ++i) {
    if (i == axis) {
      axes.push_back(CopyAxis{width, source_step * strides_[i], strides_[i]});
      side.source += source * strides_[i];
      side.destination += begin * strides_[i];
    } else {
      const int64_t offset = i < axis ? before_[i] * strides_[i] : 0;
      axes.push_back(CopyAxis{i < axis ? box_[i] : whole_[i], strides_[i], strides_[i]});
      side.source += offset;
      side.destination += offset;
    }
    if (constant) axes.back().source = 0;
  }
  side.copy = StridedCopy(item_bytes_, std::move(axes));
  if (side.copy.bytes() > 0) sides_.push_back(std::move(side));
}

void Border::Run(const char* box, char* whole, int32_t n_threads) const {
  center_.Run(box, whole + center_offset_, n_threads);
  const bool constant = mode_ == BorderMode::kConstant;
  for (const Side& side : sides_) {
    const char* source =
        constant ? static_cast<const char*>(static_cast<const void*>(&item_)) : whole + side.source;
    side.copy.Run(source, whole + side.destination, n_threads);
  }
}

}  // namespace opwright_cpu
