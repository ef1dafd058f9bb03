// Activations as oneDNN takes them: without another pass over memory.
#ifndef OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_
#define OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_

#include <oneapi/dnnl/dnnl.hpp>

#include "common/activation.h"

namespace opwright_cpu {

// Appends one to what oneDNN does with each element. Softmax, which looks at a whole row, is none.
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
