// Element-wise functions that oneDNN fuses into a primitive, without another pass over memory.
#ifndef OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_
#define OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_

#include <cstdint>
#include <limits>
#include <string_view>

#include "onednn/dnnl.h"

namespace opwright_cpu {

struct Eltwise {
  std::string_view op;  // operator type
  dnnl::algorithm algorithm;
  float alpha = 0;
  float beta = 0;
};

// Returns NULL if oneDNN lacks the function, as for softmax, which needs a complete row.
//
// In most convolutions, oneDNN's own relu turns NaN into 0, so the loss would be finite even if
// parameters are NaN. relu is therefore computed as x * min(max(a x, 0), 1) with the largest a,
// which is x for all normal x > 0, -0 below, and NaN for NaN. The result is also NaN for -inf, like
// oneDNN's silu and hard_swish, which also multiply by x.
inline const Eltwise* FindEltwise(std::string_view op) {
  static constexpr Eltwise kAll[] = {
      {"relu", dnnl::algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0.f},
      {"sigmoid", dnnl::algorithm::eltwise_logistic},
      {"tanh", dnnl::algorithm::eltwise_tanh},
      {"relu6", dnnl::algorithm::eltwise_clip, 0.f, 6.f},
      {"silu", dnnl::algorithm::eltwise_swish, 1.f},
      {"hard_swish", dnnl::algorithm::eltwise_hardswish, 1.f / 6.f, 0.5f},
  };
  for (const Eltwise& one : kAll) {
    if (one.op == op) return &one;
  }
  return nullptr;
}

inline void AppendEltwise(const Eltwise& eltwise, dnnl::post_ops* post_ops) {
  post_ops->append_eltwise(eltwise.algorithm, eltwise.alpha, eltwise.beta);
}

// Our own loop for an in-place activation of n float32 values, which runs after a primitive.
using OwnActivation = void (*)(float* numbers, int64_t n);

// Returns NULL if oneDNN's function is as fast, or if there is no loop for the function.
//
// With AVX-512, oneDNN's fused silu takes twice as long as our loop with its extra pass over
// memory, and is less accurate. oneDNN's sigmoid, tanh and hard_swish are about as fast.
OwnActivation FindOwnActivation(std::string_view op);

// Returns the loop to use after our own products, or NULL if FindEltwise lacks the function.
OwnActivation FindActivationLoop(std::string_view op);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_ACTIVATION_H_
