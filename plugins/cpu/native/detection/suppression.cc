#include "detection/suppression.h"

namespace opwright_cpu {

// Boxes of zero area never overlap, because 0 / 0 is NaN, which is not above any threshold.
OPWRIGHT_CPU_CLONES bool AnyOverlaps(const double* columns, int64_t stride, int64_t n,
                                     const double* box, double threshold, double border) {
  const double* left = columns;
  const double* top = left + stride;
  const double* right = top + stride;
  const double* bottom = right + stride;
  const double* area = bottom + stride;
  constexpr int64_t kBlock = 64;  // blocks allow an early exit when a box is dropped
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    int32_t found = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double both = AreaOf(
          left[i] > box[0] ? left[i] : box[0], top[i] > box[1] ? top[i] : box[1],
          right[i] < box[2] ? right[i] : box[2], bottom[i] < box[3] ? bottom[i] : box[3], border);
      found |= static_cast<int32_t>(both / (area[i] + box[4] - both) > threshold);
    }
    if (found != 0) return true;
  }
  return false;
}

}  // namespace opwright_cpu
