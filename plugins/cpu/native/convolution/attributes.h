// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_CONVOLUTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_CONVOLUTION_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct ConvolutionAttrs {
  std::vector<int64_t> strides;
  std::vector<int64_t> paddings;  // padding before and after each spatial axis
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  std::string data_format;
  std::optional<std::string> activation;  // set for the fused operator only
  OPWRIGHT_ATTRIBUTES(strides, paddings, dilations, groups, data_format, activation);
};

struct FoldBatchNormAttrs {
  double epsilon = 0;
  OPWRIGHT_ATTRIBUTES(epsilon);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_ATTRIBUTES_H_
