// Attributes that kernels of several folders read.
#ifndef OPWRIGHT_CPU_COMMON_ATTRIBUTES_H_
#define OPWRIGHT_CPU_COMMON_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

using opwright::NoAttrs;

struct AxisAttrs {
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

// Returns whether the channels are the last axis, as in NLC, NHWC and NDHWC.
inline bool IsChannelsLast(const std::string& data_format) { return data_format.back() == 'C'; }

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_ATTRIBUTES_H_
