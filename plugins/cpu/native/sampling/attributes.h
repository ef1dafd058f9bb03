// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_
#define OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_

#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct InterpolateAttrs {
  std::string mode;
  bool align_corners = false;
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(mode, align_corners, data_format);
};

struct GridSampleAttrs {
  std::string mode;
  std::string padding_mode;
  bool align_corners = false;
  bool normalized = true;
  OPWRIGHT_ATTRIBUTES(mode, padding_mode, align_corners, normalized);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SAMPLING_ATTRIBUTES_H_
