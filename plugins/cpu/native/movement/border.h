// A box with a border around it, for pad and the gradient of slice.
#ifndef OPWRIGHT_CPU_MOVEMENT_BORDER_H_
#define OPWRIGHT_CPU_MOVEMENT_BORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "movement/strided_copy.h"

namespace opwright_cpu {

enum class BorderMode { kConstant, kReflect, kEdge, kWrap };

// Writes the box, then the border along each axis, from the last axis to the first. The border of
// an axis spans only the box along preceding axes, but the box and its border along following axes.
// Each element is therefore written once.
class Border {
 public:
  Border() = default;
  // `before` is the border width before the box, `item` holds the bytes of the constant, and `from`
  // are the strides, in elements, of the tensor that the box is read from.
  Border(BorderMode mode, int64_t item_bytes, const std::vector<int64_t>& box,
         const std::vector<int64_t>& before, const std::vector<int64_t>& whole, uint64_t item,
         const std::vector<int64_t>& from);

  int64_t bytes() const { return whole_bytes_; }
  void Run(const char* box, char* whole, int32_t n_threads) const;

 private:
  struct Side {
    StridedCopy copy;
    int64_t source;  // byte offsets in the whole tensor
    int64_t destination;
  };

  void AddSide(size_t axis, int64_t begin, int64_t width, int64_t source, int64_t source_step);

  BorderMode mode_ = BorderMode::kConstant;
  int64_t item_bytes_ = 1;
  uint64_t item_ = 0;
  int64_t whole_bytes_ = 0;
  std::vector<int64_t> box_;
  std::vector<int64_t> before_;
  std::vector<int64_t> whole_;
  std::vector<int64_t> strides_;  // byte strides of the whole tensor
  StridedCopy center_;
  int64_t center_offset_ = 0;
  std::vector<Side> sides_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_BORDER_H_
