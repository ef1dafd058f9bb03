// The activations that kernels compute after a product or a convolution.
#ifndef OPWRIGHT_CPU_COMMON_ACTIVATION_H_
#define OPWRIGHT_CPU_COMMON_ACTIVATION_H_

#include <opwright/sdk/status.hpp>
#include <string>

namespace opwright_cpu {

// The supported activations, named after their operators.
enum class Activation { kNone, kRelu, kSigmoid, kTanh, kSoftmax };

// Converts an activation name to the enum; returns an error for a name that is not listed above.
inline opwright::Status ParseActivation(const std::string& name, Activation* activation) {
  constexpr const char* kNames[] = {"", "relu", "sigmoid", "tanh", "softmax"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) {
      *activation = static_cast<Activation>(i);
      return opwright::Status::Ok();
    }
  }
  return opwright::Status::Refused("does not support activation ", name);
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_ACTIVATION_H_
