// The products with weight_hh in one step of a recurrent layer, forward and backward, for a range
// of rows.
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_PRODUCTS_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_PRODUCTS_H_

#include <algorithm>
#include <cstdint>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "gemm/scratch.h"
#include "recurrent/recurrent_steps.h"

namespace opwright_cpu {

// A matrix [rows, columns] by which every step multiplies. Element (p, j) is at data[p * row + j *
// column], unless the matrix is in panels as written by PackPanels.
template <typename T>
struct StepWeight {
  const T* data;
  int64_t row;
  int64_t column;
  bool in_panels;
};

// Packs panels of kPanelWidth columns, whose rows are contiguous. In a wide matrix, adjacent rows
// of a panel are pages apart and often map to the same set of the L1 cache, so every step would
// reload rows from the L2 cache.
template <typename T>
void PackPanels(const StepWeight<T>& from, int64_t rows, int64_t columns, T* to) {
  for (int64_t column = 0; column < columns; column += kPanelWidth) {
    const int64_t width = std::min(kPanelWidth, columns - column);
    const T* panel = from.data + column * from.column;
    if (from.column == 1) {
      for (int64_t p = 0; p < rows; ++p) {
        std::copy(panel + p * from.row, panel + p * from.row + width, to + p * width);
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        for (int64_t p = 0; p < rows; ++p) {
          to[p * width + j] = panel[p * from.row + j * from.column];
        }
      }
    }
    to += rows * width;
  }
}

// Computes the panels [begin, end) of a product.
template <typename T>
void MultiplyPanels(GemmFn<T> gemm, GemmCall<T> call, const T* weight, bool backward, int64_t begin,
                    int64_t end) {
  call.scratch = ThreadScratch<T>();
  call.b_col = 1;
  const int64_t columns = call.n;
  T* c = call.c;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t column = (backward ? begin + end - 1 - i : i) * kPanelWidth;
    call.n = call.b_row = std::min(kPanelWidth, columns - column);
    call.b = weight + call.k * column;
    call.c = c + column;
    gemm(call);
  }
}

// Computes the product of `call` with a weight in place of b. Traversing the panels `backward` in
// every second step reuses the panels that the previous step left in the cache, even if the cache
// is smaller than the weight. Threads share the panels if the product takes longer than waking
// threads.
template <typename T>
void MultiplyWeight(GemmFn<T> gemm, GemmCall<T> call, const StepWeight<T>& weight,
                    bool backward = false, int32_t n_threads = 1) {
  if (!weight.in_panels) {
    call.scratch = ThreadScratch<T>();
    call.b = weight.data;
    call.b_row = weight.row;
    call.b_col = weight.column;
    return gemm(call);
  }
  constexpr int64_t kThreadWork = 64 * 1024;
  const int64_t panels = (call.n + kPanelWidth - 1) / kPanelWidth;
  const int64_t each = std::max<int64_t>(1, call.m * call.k * kPanelWidth);
  ParallelFor(n_threads, panels, (kThreadWork + each - 1) / each, 1,
              [&](int64_t begin, int64_t end) {
                MultiplyPanels(gemm, call, weight.data, backward, begin, end);
              });
}

// Returns the number of gates to which x and the state contribute jointly. In a GRU, the gate n
// follows and is separate.
constexpr int64_t SharedGates(Recurrent kind) {
  return kind == Recurrent::kGru ? 2 : GatesOf(kind);
}

// PackForward packs weight_hh [gates, size] for a forward step, transposed; PackBack packs it for a
// backward step. In panels, the shared gates come first, then the separate gates.
template <typename T>
StepWeight<T> PackForward(Recurrent kind, const T* weight, int64_t size, T* to) {
  const int64_t shared = SharedGates(kind) * size, apart = GatesOf(kind) * size - shared;
  PackPanels<T>({weight, 1, size, false}, size, shared, to);
  PackPanels<T>({weight + shared * size, 1, size, false}, size, apart, to + shared * size);
  return {to, 1, size, true};
}

template <typename T>
StepWeight<T> PackBack(Recurrent kind, const T* weight, int64_t size, T* to) {
  const int64_t shared = SharedGates(kind) * size, apart = GatesOf(kind) * size - shared;
  PackPanels<T>({weight, size, 1, false}, shared, size, to);
  PackPanels<T>({weight + shared * size, size, 1, false}, apart, size, to + shared * size);
  return {to, size, 1, true};
}

// Adds the contribution of the state (state × weight_hh) to the gate pre-activations. The
// contribution to the gate n of a GRU is stored separately, with its bias.
template <typename T>
void AddState(GemmFn<T> gemm, Recurrent kind, int64_t rows, int64_t size, const T* state,
              StepWeight<T> weight, const T* bias, T* sums, bool backward = false,
              int32_t n_threads = 1) {
  const int64_t width = WidthOf(kind) * size;
  const int64_t added = SharedGates(kind) * size;
  GemmCall<T> call{rows, added, size, state, size, 1,    nullptr,
                   0,    0,     sums, width, T(1), T(1), nullptr};
  MultiplyWeight(gemm, call, weight, backward, n_threads);
  if (kind != Recurrent::kGru) return;
  weight.data += added * size;
  call.n = size;
  call.c = sums + 3 * size;
  call.beta = T(0);
  MultiplyWeight(gemm, call, weight, backward, n_threads);
  if (bias == nullptr) return;
  AddBias(bias, rows, 2 * size, width, sums);
  AddBias(bias + 2 * size, rows, size, width, sums + 3 * size);
}

// Adds the gradient through the product with weight_hh to the state gradient.
template <typename T>
void AddThroughState(GemmFn<T> gemm, Recurrent kind, StepWeight<T> weight,
                     const StepBack<T>& back) {
  const int64_t rows = back.at.rows, size = back.at.size, width = WidthOf(kind) * size;
  const int64_t shared = SharedGates(kind) * size;
  GemmCall<T> call{rows, size, shared,          back.parts, width, 1,    nullptr,
                   0,    0,    back.state_grad, size,       T(1),  T(1), nullptr};
  MultiplyWeight(gemm, call, weight);
  if (kind != Recurrent::kGru) return;
  weight.data += shared * size;
  call.k = size;
  call.a = back.parts + 3 * size;
  MultiplyWeight(gemm, call, weight);
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_PRODUCTS_H_
