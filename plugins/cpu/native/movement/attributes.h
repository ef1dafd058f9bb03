// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_
#define OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct TransposeAttrs {
  std::vector<int64_t> axes;
  OPWRIGHT_ATTRIBUTES(axes);
};

struct SliceAttrs {
  std::vector<int64_t> axes;
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> steps;
  OPWRIGHT_ATTRIBUTES(axes, starts, ends, steps);
};

struct PadAttrs {
  std::vector<int64_t> paddings;
  std::string mode;
  double value;
  OPWRIGHT_ATTRIBUTES(paddings, mode, value);
};

struct UnfoldAttrs {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> paddings;  // padding before and after each axis
  std::vector<int64_t> dilations;
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_ATTRIBUTES_H_
