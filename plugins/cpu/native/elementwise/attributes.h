// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ELEMENTWISE_ATTRIBUTES_H_

#include <opwright/sdk.hpp>
#include <string>

namespace opwright_cpu {

using opwright::NoAttrs;

struct AlphaAttrs {
  double alpha;
  OPWRIGHT_ATTRIBUTES(alpha);
};

struct ScaleAttrs {
  double scale;
  double bias;
  OPWRIGHT_ATTRIBUTES(scale, bias);
};

struct ClipAttrs {
  double min;
  double max;
  OPWRIGHT_ATTRIBUTES(min, max);
};

struct GeluAttrs {
  std::string approximate;
  OPWRIGHT_ATTRIBUTES(approximate);
};

struct FillAttrs {
  double value;
  OPWRIGHT_ATTRIBUTES(value);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_ATTRIBUTES_H_
