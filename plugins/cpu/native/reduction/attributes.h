// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <vector>

namespace opwright_cpu {

struct AxesAttrs {
  std::vector<int64_t> axis;  // none: all
  OPWRIGHT_ATTRIBUTES(axis);
};

struct AxisAttrs {
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

struct CrossEntropyAttrs {
  bool soft_label;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(soft_label, epsilon);
};

struct SoftmaxLossAttrs {
  bool soft_label;
  int64_t ignore_index;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(soft_label, ignore_index, axis);
};

struct LayerNormAttrs {
  int64_t begin_norm_axis;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(begin_norm_axis, epsilon);
};

struct BatchNormAttrs {
  double momentum;
  double epsilon;
  bool training;
  OPWRIGHT_ATTRIBUTES(momentum, epsilon, training);
};

struct CosSimAttrs {
  double scale;
  int64_t axis;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(scale, axis, epsilon);
};

struct AccuracyAttrs {
  int64_t k;
  OPWRIGHT_ATTRIBUTES(k);
};

struct TopKAttrs {
  int64_t k;
  int64_t axis;
  bool largest;
  OPWRIGHT_ATTRIBUTES(k, axis, largest);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
