// The gradients of softmax and log_softmax along rows.
#ifndef OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_
#define OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_

#include <cstdint>

namespace opwright_cpu {

// softmax: (g - sum(out * g)) * out; log_softmax: g - exp(out) * sum(g), where g is out_grad.
// x_grad may be `out` or `grad`. This version is for float.
template <bool kLog>
void SoftmaxGradRows(const float* out, const float* grad, int64_t n_rows, int64_t n, float* x_grad);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_
