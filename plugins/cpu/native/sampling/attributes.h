// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_
#define OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct UnfoldAttrs {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> paddings;  // before and after each axis
  std::vector<int64_t> dilations;
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations);
};

struct GridSampleAttrs {
  std::string mode;
  std::string padding_mode;
  bool align_corners = false;
  bool normalized = true;
  OPWRIGHT_ATTRIBUTES(mode, padding_mode, align_corners, normalized);
};

struct EmbeddingBagAttrs {
  std::string mode;
  int64_t padding_index = -1;
  bool include_last_offset = false;
  OPWRIGHT_ATTRIBUTES(mode, padding_index, include_last_offset);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_
