// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ELEMENTWISE_ATTRIBUTES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/half_rows.h"

namespace opwright_cpu {

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
  void RoundTo(DLDataType dtype) {
    min = RoundedTo(dtype, min);
    max = RoundedTo(dtype, max);
  }
};

struct BetaAttrs {
  double beta;
  OPWRIGHT_ATTRIBUTES(beta);
};

struct HardSigmoidAttrs {
  double alpha;
  double beta;
  OPWRIGHT_ATTRIBUTES(alpha, beta);
};

struct ThresholdAttrs {
  double threshold;
  OPWRIGHT_ATTRIBUTES(threshold);
};

struct StanhAttrs {
  double scale_a;
  double scale_b;
  OPWRIGHT_ATTRIBUTES(scale_a, scale_b);
};

struct ExponentAttrs {
  double exponent;
  OPWRIGHT_ATTRIBUTES(exponent);
};

struct OrderAttrs {
  int64_t n;
  OPWRIGHT_ATTRIBUTES(n);
};

struct StepAttrs {
  double step;
  OPWRIGHT_ATTRIBUTES(step);
};

struct NanToNumAttrs {
  double nan;
  double posinf;
  double neginf;
  OPWRIGHT_ATTRIBUTES(nan, posinf, neginf);

  // Bounds beyond the range of a 16-bit float are clamped to its range, not the range of float.
  void RoundTo(DLDataType dtype) {
    if (!IsHalf(dtype)) return;
    const double most = dtype.code == kDLFloat ? 65504.0 : 0x1.fep127;
    posinf = std::clamp(posinf, -most, most);
    neginf = std::clamp(neginf, -most, most);
  }
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
