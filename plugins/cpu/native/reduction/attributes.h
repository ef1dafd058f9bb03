// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/half_rows.h"

namespace opwright_cpu {

struct AxesAttrs {
  std::vector<int64_t> axis;  // empty means all axes
  OPWRIGHT_ATTRIBUTES(axis);
};

struct CosSimAttrs {
  double scale;
  int64_t axis;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(scale, axis, epsilon);
  // Rounds epsilon to the dtype, because the norms that epsilon bounds are stored in the dtype.
  // Epsilon is a divisor, so it must not become 0.
  void RoundTo(DLDataType dtype) {
    const double least = dtype.code == kDLFloat ? 0x1p-24 : 0x1p-133;
    if (IsHalf(dtype)) epsilon = RoundedTo(dtype, std::max(epsilon, least));
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
