// Positions in int32 or int64 tensors. Their range is checked before anything is written.
#ifndef OPWRIGHT_CPU_INDEXING_POSITIONS_H_
#define OPWRIGHT_CPU_INDEXING_POSITIONS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/clones.h"

namespace opwright_cpu {

// A view of an int32 or int64 index tensor.
class Positions {
 public:
  Positions(const opwright::InputTensor& index, int64_t n)
      : data_(index.raw()), n_(n), is_long_(index.dtype().bits == 64) {}

  // Wraps positions that a kernel has computed.
  Positions(const int64_t* data, int64_t n) : data_(data), n_(n), is_long_(true) {}

  int64_t operator[](int64_t i) const {
    return is_long_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

  // Returns an error unless all positions are in [least, count).
  opwright::Status Check(const char* slot, int64_t least, int64_t count) const;

  // Calls function(pointer to the positions), so a loop over them is compiled for each type.
  template <typename Function>
  void Visit(const Function& function) const {
    if (is_long_) {
      function(static_cast<const int64_t*>(data_));
    } else {
      function(static_cast<const int32_t*>(data_));
    }
  }

 private:
  const void* data_;
  int64_t n_;
  bool is_long_;
};

// Converts a negative position to a position from the front.
OPWRIGHT_CPU_INLINE int64_t FromFront(int64_t position, int64_t count) {
  return position < 0 ? position + count : position;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_POSITIONS_H_
