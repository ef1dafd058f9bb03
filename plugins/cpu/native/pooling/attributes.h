// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_POOLING_ATTRIBUTES_H_
#define OPWRIGHT_CPU_POOLING_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct PoolAttrs {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;   // equal to the kernel if empty
  std::vector<int64_t> paddings;  // padding before and after each spatial axis
  std::vector<int64_t> dilations;
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations, data_format);
};

struct AveragePoolAttrs : PoolAttrs {
  bool count_include_pad = false;
  int64_t divisor = 0;  // 0 means the number of elements
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations, data_format, count_include_pad,
                      divisor);
};

struct AdaptivePoolAttrs {
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(data_format);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_ATTRIBUTES_H_
