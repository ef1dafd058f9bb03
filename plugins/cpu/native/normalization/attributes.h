// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_NORMALIZATION_ATTRIBUTES_H_
#define OPWRIGHT_CPU_NORMALIZATION_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

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

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_NORMALIZATION_ATTRIBUTES_H_
