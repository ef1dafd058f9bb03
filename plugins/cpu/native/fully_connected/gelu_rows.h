// gelu and its derivative for a block of rows, in one sweep each.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_

#include <cstdint>

namespace opwright_cpu {

// `rows` rows of n columns of x, at distances of
// x_stride; the rows of `activated` follow each other.
struct GeluBlock {
  const float* x;
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  float* activated;
};

// activated = gelu(x), its tanh approximation if `tanh`.
void ActivateRows(const GeluBlock& block, bool tanh);

// The gradient through gelu: `grad` of its output, whose rows follow each other; `x_grad`, with the
// row stride x_stride, which may be x; `sums` of the columns of x_grad, or NULL.
struct GeluBack {
  const float* grad;
  float* x_grad;
  float* sums;
};

// The same, and x_grad = grad * the derivative of gelu at x; its columns are added to the sums.
void ActivateAndDeriveRows(const GeluBlock& block, bool tanh, const GeluBack& back);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_GELU_ROWS_H_
