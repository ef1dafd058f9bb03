// gelu and its derivative for a block of rows, in one sweep each.
#ifndef OPWRIGHT_CPU_TRAINING_GELU_ROWS_H_
#define OPWRIGHT_CPU_TRAINING_GELU_ROWS_H_

#include <cstdint>

namespace opwright_cpu {

// `rows` rows of n columns of x, which lie x_stride apart; the rows of `activated` follow each
// other.
struct GeluBlock {
  const float* x;
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  float* activated;
};

// activated = gelu(x), its tanh approximation where `tanh` says so.
void ActivateRows(const GeluBlock& block, bool tanh);

// The same, and grad *= the derivative of gelu at x, of rows that lie x_stride apart, too. `sums`,
// if it is not NULL, gets the sums of the columns of grad added.
void ActivateAndDeriveRows(const GeluBlock& block, bool tanh, float* grad, float* sums);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_TRAINING_GELU_ROWS_H_
