// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_LOSSES_ATTRIBUTES_H_
#define OPWRIGHT_CPU_LOSSES_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct SoftmaxCrossEntropyAttrs {
  double epsilon;
  int64_t ignore_index;
  double loss_grad;
  std::string source;  // operator name for error messages
  OPWRIGHT_ATTRIBUTES(epsilon, ignore_index, loss_grad, source);
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

struct HuberAttrs {
  double delta;
  OPWRIGHT_ATTRIBUTES(delta);
};

struct SmoothL1Attrs {
  double beta;
  OPWRIGHT_ATTRIBUTES(beta);
};

struct HingeAttrs {
  std::optional<double> margin;  // set for margin_rank_loss only
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

#endif  // OPWRIGHT_CPU_LOSSES_ATTRIBUTES_H_
