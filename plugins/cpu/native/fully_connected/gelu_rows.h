// gelu and its derivative for a block of rows, in one sweep each.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_

#include <cstdint>

namespace opwright_cpu {

// A block of `rows` rows of n columns of x, x_stride elements apart; `activated` is contiguous.
struct GeluBlock {
  const float* x;
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  float* activated;
};

// Computes activated = gelu(x), or its tanh approximation if `tanh` is true.
void ActivateRows(const GeluBlock& block, bool tanh);

// The gradient through gelu. `grad` is the contiguous output gradient; `x_grad` has the row stride
// x_stride and may be x; `sums` are the column sums of x_grad, or NULL.
struct GeluBack {
  const float* grad;
  float* x_grad;
  float* sums;
};

// Computes activated = gelu(x) and x_grad = grad * gelu'(x), and adds the columns of x_grad to the
// sums.
void ActivateAndDeriveRows(const GeluBlock& block, bool tanh, const GeluBack& back);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_
