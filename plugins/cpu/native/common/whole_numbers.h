// Integers of either width, read one by one.
#ifndef OPWRIGHT_CPU_COMMON_WHOLE_NUMBERS_H_
#define OPWRIGHT_CPU_COMMON_WHOLE_NUMBERS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// A view of an int32 or int64 tensor.
class WholeNumbers {
 public:
  explicit WholeNumbers(const opwright::InputTensor& tensor)
      : data_(tensor.raw()), n_(tensor.numel()), is_long_(tensor.dtype().bits == 64) {}
  int64_t size() const { return n_; }
  int64_t operator[](int64_t i) const {
    return is_long_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  int64_t n_;
  bool is_long_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_WHOLE_NUMBERS_H_
