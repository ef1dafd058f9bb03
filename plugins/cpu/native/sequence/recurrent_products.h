// The products of some rows of one step of a recurrent layer with weight_hh, and back.
#ifndef OPWRIGHT_CPU_SEQUENCE_RECURRENT_PRODUCTS_H_
#define OPWRIGHT_CPU_SEQUENCE_RECURRENT_PRODUCTS_H_

#include <cstdint>

#include "gemm/gemm.h"
#include "sequence/recurrent_steps.h"

namespace opwright_cpu {

// Where the elements of a weight [gates, size] lie: (i, j) at data[i * row + j * column].
template <typename T>
struct WeightPlace {
  const T* data;
  int64_t row;
  int64_t column;
};

// Adds what the state gives to the sums. What it gives to a GRU's n stays apart, with its bias.
template <typename T>
void AddState(GemmFn<T> gemm, Recurrent kind, int64_t rows, int64_t size, const T* state,
              const WeightPlace<T>& weight, const T* bias, T* sums) {
  alignas(64) static thread_local T scratch[kGemmScratch];
  const int64_t width = WidthOf(kind) * size;
  const int64_t added = (kind == Recurrent::kGru ? 2 : GatesOf(kind)) * size;
  gemm({rows, added, size, state, size, 1, weight.data, weight.column, weight.row, sums, width,
        T(1), T(1), scratch});
  if (kind != Recurrent::kGru) return;
  gemm({rows, size, size, state, size, 1, weight.data + added * weight.row, weight.column,
        weight.row, sums + 3 * size, width, T(1), T(0), scratch});
  if (bias == nullptr) return;
  AddBias(bias, rows, 2 * size, width, sums);
  AddBias(bias + 2 * size, rows, size, width, sums + 3 * size);
}

// Adds what goes back through the product with weight_hh to the gradient of the state.
template <typename T>
void AddThroughState(GemmFn<T> gemm, Recurrent kind, const T* weight, const StepBack<T>& back) {
  alignas(64) static thread_local T scratch[kGemmScratch];
  const int64_t rows = back.at.rows, size = back.at.size, width = WidthOf(kind) * size;
  const int64_t first = (kind == Recurrent::kGru ? 2 : GatesOf(kind)) * size;
  gemm({rows, size, first, back.parts, width, 1, weight, size, 1, back.state_grad, size, T(1), T(1),
        scratch});
  if (kind != Recurrent::kGru) return;
  gemm({rows, size, size, back.parts + 3 * size, width, 1, weight + first * size, size, 1,
        back.state_grad, size, T(1), T(1), scratch});
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SEQUENCE_RECURRENT_PRODUCTS_H_
