// The activations that a fully connected layer may end with, row by row.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_

#include <cstdint>

#include "common/activation.h"

namespace opwright_cpu {

// out[i, j] = activation(parts[0][i, j] + ... + bias[j]) for rows of n numbers that follow each
// other; part t begins at parts + t * stride, and bias may be NULL. `out` may be the first part.
template <typename T>
void FinishRows(Activation activation, const T* parts, int64_t n_parts, int64_t stride,
                const T* bias, int64_t rows, int64_t n, T* out);

// grad[i, j] *= the derivative of the activation with the result out[i, j]; rows of n numbers,
// `stride` apart. If bias_grad is not NULL, it gets the sums of the columns. Not for softmax.
template <typename T>
void MultiplyByDerivative(Activation activation, const T* out, T* grad, int64_t rows, int64_t n,
                          int64_t stride, T* bias_grad);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_ACTIVATION_H_
