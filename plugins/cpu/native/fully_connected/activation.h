// Applies the activation after a fully connected layer, row by row.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_

#include <cstdint>

#include "common/activation.h"

namespace opwright_cpu {

// Computes out[i, j] = activation(parts[0][i, j] + ... + bias[j]) for contiguous rows of n
// elements. Part t begins at parts + t * stride; bias may be NULL; `out` may be the first part.
template <typename T>
void FinishRows(Activation activation, const T* parts, int64_t n_parts, int64_t stride,
                const T* bias, int64_t rows, int64_t n, T* out);

// Multiplies grad[i, j] by the derivative of the activation whose result is out[i, j], in rows of n
// elements, `stride` apart. If bias_grad is not NULL, it receives the column sums. Softmax is not
// supported.
template <typename T>
void MultiplyByDerivative(Activation activation, const T* out, T* grad, int64_t rows, int64_t n,
                          int64_t stride, T* bias_grad);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_
