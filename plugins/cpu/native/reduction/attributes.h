// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <opwright/sdk.hpp>
#include <string>
#include <vector>

#include "common/half_rows.h"

namespace opwright_cpu {

struct AxesAttrs {
  std::vector<int64_t> axis;  // none: all
  OPWRIGHT_ATTRIBUTES(axis);
};

struct AxisAttrs {
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

struct CumulativeAttrs {
  int64_t axis;
  bool exclusive;
  bool reverse;
  OPWRIGHT_ATTRIBUTES(axis, exclusive, reverse);
};

struct SortAttrs {
  int64_t axis;
  bool descending;
  OPWRIGHT_ATTRIBUTES(axis, descending);
};

struct SearchsortedAttrs {
  std::string side;
  bool rows;
  std::string dtype;
  OPWRIGHT_ATTRIBUTES(side, rows, dtype);
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

struct GroupNormAttrs {
  double epsilon;
  OPWRIGHT_ATTRIBUTES(epsilon);
};

struct BatchNormAttrs {
  double momentum;
  double epsilon;
  bool training;
  bool unbiased;
  std::optional<std::string> activation;  // of the fused operator only
  OPWRIGHT_ATTRIBUTES(momentum, epsilon, training, unbiased, activation);
};

struct BatchNormGradAttrs {
  bool training;
  std::optional<std::string> activation;  // of the fused operator only
  OPWRIGHT_ATTRIBUTES(training, activation);
};

struct CosSimAttrs {
  double scale;
  int64_t axis;
  double epsilon;
  OPWRIGHT_ATTRIBUTES(scale, axis, epsilon);
  // The norms that are compared with it are stored in the dtype. It is divided by, so never 0.
  void RoundTo(DLDataType dtype) {
    const double least = dtype.code == kDLFloat ? 0x1p-24 : 0x1p-133;
    if (IsHalf(dtype)) epsilon = RoundedTo(dtype, std::max(epsilon, least));
  }
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

struct NllAttrs {
  int64_t ignore_index;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(ignore_index, axis);
};

struct CtcAttrs {
  int64_t blank;
  bool zero_infinity;
  OPWRIGHT_ATTRIBUTES(blank, zero_infinity);
};

struct AucAttrs {
  int64_t num_thresholds;
  OPWRIGHT_ATTRIBUTES(num_thresholds);
};

struct HuberAttrs {
  double delta;
  OPWRIGHT_ATTRIBUTES(delta);
};

struct SmoothL1Attrs {
  double beta;
  OPWRIGHT_ATTRIBUTES(beta);
};

struct HingeAttrs {
  std::optional<double> margin;  // of margin_rank_loss only
  OPWRIGHT_ATTRIBUTES(margin);
};

struct LogLossAttrs {
  double epsilon;
  OPWRIGHT_ATTRIBUTES(epsilon);
};

struct KlDivAttrs {
  bool log_label;
  OPWRIGHT_ATTRIBUTES(log_label);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_ATTRIBUTES_H_
