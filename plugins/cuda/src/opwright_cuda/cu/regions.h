// Boxes in images, [boxes, 4], with the image index of each box, for roi_align and roi_pool.
#ifndef OPWRIGHT_CUDA_REGIONS_H_
#define OPWRIGHT_CUDA_REGIONS_H_

#include "kernel.h"

namespace opwright_cuda {

constexpr double kMostCoordinate = 1048576.0;

template <typename T, typename Index>
struct Regions {
  const T* rois;  // [boxes, 4]: left, top, right, bottom
  const Index* images;
  double scale;
  int64_t boxes;
  int64_t n;
  int64_t channels;
  int64_t size[2];  // height and width of an image
  int64_t bins[2];

  OW_INLINE double Corner(int64_t box, int corner) const {
    return static_cast<double>(Load(rois[box * 4 + corner])) * scale;
  }
  OW_INLINE bool IsIn(int64_t box, int64_t image) const {
    return static_cast<int64_t>(images[box]) == image;
  }
  OW_INLINE bool HasImage(int64_t box) const {
    const auto image = static_cast<int64_t>(images[box]);
    return image >= 0 && image < n;
  }
  // Returns the offset of a plane in the image of a box; the image must exist.
  OW_INLINE int64_t PlaneOf(int64_t box, int64_t channel) const {
    return (static_cast<int64_t>(images[box]) * channels + channel) * size[0] * size[1];
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_REGIONS_H_
