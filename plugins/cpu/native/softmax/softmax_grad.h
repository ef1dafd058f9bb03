// The gradients of softmax and log_softmax along rows.
#ifndef OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_
#define OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_

#include <cstdint>

namespace opwright_cpu {

// Computes (g - sum(out * g)) * out for softmax, or g - exp(out) * sum(g) for log_softmax, where g
// is out_grad, in float. x_grad may be `out` or `grad`.
template <bool kLog>
void SoftmaxGradRows(const float* out, const float* grad, int64_t n_rows, int64_t n, float* x_grad);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SOFTMAX_SOFTMAX_GRAD_H_
