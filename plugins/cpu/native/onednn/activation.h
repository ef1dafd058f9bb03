// The activations that follow a product or a convolution without another pass over memory.
#ifndef OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_
#define OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_

#include <string>

#include <oneapi/dnnl/dnnl.hpp>
#include <opwright/sdk.hpp>

namespace opwright_cpu {

// By the names of their operators.
enum class Activation { kNone, kRelu, kSigmoid, kTanh, kSoftmax };

inline opwright::Status ParseActivation(const std::string& name, Activation* activation) {
  constexpr const char* kNames[] = {"", "relu", "sigmoid", "tanh", "softmax"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) {
      *activation = static_cast<Activation>(i);
      return opwright::Status::Ok();
    }
  }
  return opwright::Status::Refused("has no activation ", name);
}

// Appends it to what oneDNN does with each element. Softmax, which looks at a whole row, is none.
inline void AppendActivation(Activation activation, dnnl::post_ops* post_ops) {
  switch (activation) {
    case Activation::kRelu:
      return post_ops->append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
    case Activation::kSigmoid:
      return post_ops->append_eltwise(dnnl::algorithm::eltwise_logistic, 0.f, 0.f);
    case Activation::kTanh:
      return post_ops->append_eltwise(dnnl::algorithm::eltwise_tanh, 0.f, 0.f);
    case Activation::kNone:
    case Activation::kSoftmax:
      return;
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_
