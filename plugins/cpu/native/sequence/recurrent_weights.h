// The gradients of the weights and biases of a recurrent layer, from those of the sums of all
// steps.
#ifndef OPWRIGHT_CPU_SEQUENCE_RECURRENT_WEIGHTS_H_
#define OPWRIGHT_CPU_SEQUENCE_RECURRENT_WEIGHTS_H_

#include <algorithm>
#include <cstdint>

#include "sequence/recurrent.h"

namespace opwright_cpu {

// Of one direction of one layer, number `index` in the lists of parameters, which begin with
// weight_ih in `slot`: `h0` is the state before all steps or NULL, `states` what all steps gave,
// and `parts` the gradients of the sums.
template <typename T>
struct WeightGrads {
  const RecurrentShape& s;
  GemmFn<T> gemm;
  const opwright::RunContext& ctx;
  uint32_t slot;
  uint32_t index;
  bool reverse;
  const T* h0;
  const T* states;
  const T* parts;

  // Writes those that are wanted; `source` is what the layer read.
  void Write(const T* source, int64_t inputs) const {
    const int64_t size = s.size, gates = s.gates();
    const bool is_gru = s.kind == Recurrent::kGru;
    // A GRU's part of n goes back to the state by itself.
    const int64_t shared = is_gru ? 2 * size : gates;
    if (T* grad = Out(0)) Multiply(parts, gates, s.rows(), source, inputs, T(0), grad);
    if (T* grad = Out(1)) {
      WriteStateGrad(parts, shared, grad);
      if (is_gru) WriteStateGrad(parts + 3 * size, size, grad + shared * size);
    }
    if (T* sums = Out(2)) SumRows(parts, s.rows(), gates, s.width(), sums);
    if (T* sums = Out(3)) {
      SumRows(parts, s.rows(), shared, s.width(), sums);
      if (is_gru) SumRows(parts + 3 * size, s.rows(), size, s.width(), sums + shared);
    }
  }

 private:
  T* Out(uint32_t parameter) const {
    const uint32_t wanted = slot + parameter;
    return ctx.has_output(wanted) ? ctx.output(wanted, index).template data<T>() : nullptr;
  }

  // grad = kept * grad + part^T y, of so many columns of `part` and rows of both.
  void Multiply(const T* part, int64_t columns, int64_t rows, const T* y, int64_t n, T kept,
                T* grad) const {
    ParallelGemm<T>(gemm,
                    {columns, n, rows, part, 1, s.width(), y, n, 1, grad, n, T(1), kept, nullptr},
                    ctx.n_threads());
  }

  // The states before all steps are h0 and those of all steps but the last.
  void WriteStateGrad(const T* part, int64_t columns, T* grad) const {
    const int64_t each = s.n * s.size, later = std::max<int64_t>(0, s.steps - 1) * s.n;
    const int64_t one_step = s.steps > 0 ? 1 : 0;
    const T* behind = part + (reverse ? 0 : one_step * s.n * s.width());
    Multiply(behind, columns, later, states + (reverse ? one_step * each : 0), s.size, T(0), grad);
    if (s.steps == 0 || h0 == nullptr) return;
    const T* first = part + (reverse ? later * s.width() : 0);
    Multiply(first, columns, s.n, h0, s.size, T(1), grad);
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SEQUENCE_RECURRENT_WEIGHTS_H_
