// Attributes of the kernels in this folder.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_ATTRIBUTES_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct FcAttrs {
  int64_t num_flatten_dims;
  std::string activation;
  bool transpose_weight;
  OPWRIGHT_ATTRIBUTES(num_flatten_dims, activation, transpose_weight);
};

struct FcInputGradAttrs {
  std::string activation;
  bool transpose_weight;
  OPWRIGHT_ATTRIBUTES(activation, transpose_weight);
};

struct FcSgdAttrs {
  double weight_decay;
  bool transpose_weight;
  OPWRIGHT_ATTRIBUTES(weight_decay, transpose_weight);
};

struct GeluFcAttrs {
  std::string approximate;
  bool transpose_weight;
  OPWRIGHT_ATTRIBUTES(approximate, transpose_weight);
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_ATTRIBUTES_H_
