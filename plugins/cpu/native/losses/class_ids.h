// Class ids as labels: range checks, and access for both index dtypes.
#ifndef OPWRIGHT_CPU_LOSSES_CLASS_IDS_H_
#define OPWRIGHT_CPU_LOSSES_CLASS_IDS_H_

#include <cstdint>
#include <opwright/sdk.hpp>

namespace opwright_cpu {

// A view of int32 or int64 labels.
class ClassIds {
 public:
  explicit ClassIds(const opwright::InputTensor& label)
      : data_(label.raw()), is_wide_(label.dtype().bits == 64), n_(label.numel()) {}

  int64_t operator[](int64_t i) const {
    return is_wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

  // Returns an error unless every id is in [0, n_classes) or equal to *ignored, if `ignored` is not
  // NULL. Kernels call this function before they write.
  opwright::Status Check(int64_t n_classes, const int64_t* ignored = nullptr) const {
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t id = (*this)[i];
      // A negative id, cast to an unsigned integer, also exceeds the limit.
      if (static_cast<uint64_t>(id) < static_cast<uint64_t>(n_classes)) continue;
      if (ignored != nullptr && id == *ignored) continue;
      return opwright::Status::Error("label must be in [0, ", n_classes, "), got ", id);
    }
    return opwright::Status::Ok();
  }

 private:
  const void* data_;
  bool is_wide_;
  int64_t n_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_LOSSES_CLASS_IDS_H_
