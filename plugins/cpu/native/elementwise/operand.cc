#include "elementwise/operand.h"

#include <algorithm>
#include <cstring>

namespace opwright_cpu {
namespace {

template <typename Item>
void Fill(const void* value, int64_t count, void* buffer) {
  std::fill_n(static_cast<Item*>(buffer), count, *static_cast<const Item*>(value));
}

// Calls function with a value of the unsigned integer type that has this size.
template <typename Function>
void WithItem(int64_t item_bytes, const Function& function) {
  switch (item_bytes) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

const char* At(const void* data, int64_t offset_bytes) {
  return static_cast<const char*>(data) + offset_bytes;
}

}  // namespace

Operand::Operand(const opwright::Shape& out, const opwright::Shape& shape, int64_t item_bytes)
    : item_bytes_(item_bytes) {
  int64_t stride = 1;
  for (int32_t axis = 1; axis <= out.rank(); ++axis) {  // starts at the innermost axis
    const int64_t size = out.dim(-axis);
    const int64_t own = axis <= shape.rank() ? shape.dim(-axis) : 1;
    const int64_t step = own == 1 ? 0 : stride;
    stride *= own;
    if (size == 1) continue;
    if (!axes_.empty() && step == axes_.back().stride * axes_.back().size) {
      axes_.back().size *= size;
    } else {
      axes_.push_back(Axis{size, step});
    }
  }
  std::reverse(axes_.begin(), axes_.end());
  if (axes_.empty() || (axes_.size() == 1 && axes_[0].stride == 1)) return;
  kind_ = Kind::kGeneral;
  if (axes_.size() == 1) kind_ = Kind::kScalar;
  if (axes_.size() == 2 && axes_[0].stride == 0) {
    period_ = axes_[1].size;
    kind_ = period_ <= kLongestTile ? Kind::kTile : Kind::kRow;
  }
}

void Operand::Begin(const void* data, int64_t count, void* buffer) const {
  if (kind_ == Kind::kScalar) {
    WithItem(item_bytes_,
             [=](auto item) { Fill<decltype(item)>(data, std::min(count, kBlock), buffer); });
  } else if (kind_ == Kind::kTile) {
    const int64_t needed = std::min(count, kBlock) + period_;
    for (int64_t done = 0; done < needed; done += period_) {
      const int64_t part = std::min(period_, needed - done);
      std::memcpy(static_cast<char*>(buffer) + done * item_bytes_, data,
                  static_cast<size_t>(part * item_bytes_));
    }
  }
}

const void* Operand::ReadRepeated(const void* data, int64_t position, int64_t* count,
                                  void* buffer) const {
  switch (kind_) {
    case Kind::kScalar:
      return buffer;
    case Kind::kTile:
      return At(buffer, position % period_ * item_bytes_);
    case Kind::kRow: {
      const int64_t column = position % period_;
      *count = std::min(*count, period_ - column);
      return At(data, column * item_bytes_);
    }
    case Kind::kDirect:
    case Kind::kGeneral:
      break;
  }
  WithItem(item_bytes_, [=](auto item) { Gather<decltype(item)>(data, position, *count, buffer); });
  return buffer;
}

int64_t Operand::OffsetOfRow(int64_t row) const {
  int64_t offset = 0;
  for (size_t axis = axes_.size() - 1; axis-- > 0;) {
    const int64_t size = axes_[axis].size;
    offset += (axis == 0 ? row : row % size) * axes_[axis].stride;
    row /= size;
  }
  return offset;
}

template <typename Item>
void Operand::Gather(const void* data, int64_t position, int64_t count, void* buffer) const {
  const Axis inner = axes_.back();
  const auto* items = static_cast<const Item*>(data);
  auto* to = static_cast<Item*>(buffer);
  int64_t row = position / inner.size;
  int64_t column = position % inner.size;
  for (int64_t done = 0; done < count; ++row, column = 0) {
    const Item* from = items + OffsetOfRow(row) + column * inner.stride;
    const int64_t part = std::min(inner.size - column, count - done);
    if (inner.stride == 0) {
      std::fill_n(to + done, part, *from);
    } else {
      std::copy_n(from, part, to + done);
    }
    done += part;
  }
}

}  // namespace opwright_cpu
