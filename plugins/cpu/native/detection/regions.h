// Boxes in images, for roi_align and roi_pool: coordinates [boxes, 4] and one image index per box.
#ifndef OPWRIGHT_CPU_DETECTION_REGIONS_H_
#define OPWRIGHT_CPU_DETECTION_REGIONS_H_

#include <cmath>
#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// The image indices of boxes, int32 or int64.
class ImageNumbers {
 public:
  explicit ImageNumbers(const opwright::InputTensor& tensor)
      : data_(tensor.raw()), n_(tensor.numel()), is_wide_(tensor.dtype().bits == 64) {}

  int64_t operator[](int64_t i) const {
    return is_wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

  // Returns an error unless every index is in [0, count).
  opwright::Status Check(int64_t count) const {
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t image = (*this)[i];
      if (image < 0 || image >= count) {
        return opwright::Status::Error("batch_index must be in [0, ", count, "), got ", image);
      }
    }
    return opwright::Status::Ok();
  }

 private:
  const void* data_;
  int64_t n_;
  bool is_wide_;
};

// The largest valid coordinate, which bounds casts and the number of samples.
constexpr int64_t kMaxCoordinate = int64_t{1} << 20;

template <typename T>
opwright::Status CheckRegions(const T* rois, int64_t n, double scale) {
  for (int64_t i = 0; i < 4 * n; ++i) {
    const double at = static_cast<double>(rois[i]) * scale;
    if (std::abs(at) <= static_cast<double>(kMaxCoordinate)) continue;  // false for NaN
    return opwright::Status::Error("rois times spatial_scale must be in [-", kMaxCoordinate, ", ",
                                   kMaxCoordinate, "], got ", at, "; clip boxes to their images");
  }
  return opwright::Status::Ok();
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_DETECTION_REGIONS_H_
