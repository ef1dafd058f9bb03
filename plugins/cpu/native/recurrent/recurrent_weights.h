// The gradients of the weights and biases of a recurrent layer, computed from the pre-activation
// gradients of all steps.
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_WEIGHTS_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_WEIGHTS_H_

#include <algorithm>
#include <cstdint>

#include "attention/seen.h"
#include "recurrent/recurrent.h"

namespace opwright_cpu {

// Writes the weight and bias gradients of one direction of a layer: entry `index` of the parameter
// lists, which begin with weight_ih in `slot`. `h0` is the state before all steps, or NULL.
// `states` are the results of the steps from `first_state` on; `first_state` may be the step before
// `steps`. `parts` are the pre-activation gradients of `steps`. The last steps are processed first,
// and earlier steps add their contributions. For the reverse direction, `steps` contains all steps.
template <typename T>
struct WeightGrads {
  const RecurrentShape& s;
  GemmFn<T> gemm;
  const opwright::RunContext& ctx;
  uint32_t slot;
  uint32_t index;
  bool reverse;
  Part steps;
  const T* h0;
  const T* states;
  int64_t first_state;
  const T* parts;
  bool has_lengths = false;  // elements beyond the lengths may be NaN and must not contribute

  // Writes the gradient of weight_ih if it is requested; `source` is the layer input in `steps`.
  void WriteSource(const T* source, int64_t inputs) const {
    T* grad = Out(0);
    if (grad == nullptr) return;
    if (has_lengths && !AllFinite(source, inputs, rows(), inputs)) {
      return MultiplySeen<T>({s.gates(), inputs, rows(), parts, 1, s.width(), source, inputs, 1,
                              grad, inputs, T(1), kept(), nullptr});
    }
    Multiply(parts, s.gates(), rows(), source, inputs, kept(), grad);
  }

  // Writes the other requested gradients.
  void WriteState() const {
    const int64_t size = s.size, gates = s.gates();
    const bool is_gru = s.kind == Recurrent::kGru;
    // In a GRU, the contribution of the state to n is separate.
    const int64_t shared = is_gru ? 2 * size : gates;
    if (T* grad = Out(1)) {
      WriteStateGrad(parts, shared, grad);
      if (is_gru) WriteStateGrad(parts + 3 * size, size, grad + shared * size);
    }
    if (T* sums = Out(2)) Sum(parts, gates, sums);
    if (T* sums = Out(3)) {
      Sum(parts, shared, sums);
      if (is_gru) Sum(parts + 3 * size, size, sums + shared);
    }
  }

 private:
  int64_t rows() const { return (steps.end - steps.begin) * s.n; }
  // Returns the factor of previous results: 0 for the last steps, since they are processed first,
  // and 1 for earlier steps, which add to the results.
  T kept() const { return steps.end == s.steps ? T(0) : T(1); }

  T* Out(uint32_t parameter) const {
    const uint32_t wanted = slot + parameter;
    return ctx.has_output(wanted) ? ctx.output(wanted, index).template data<T>() : nullptr;
  }

  void Sum(const T* part, int64_t columns, T* sums) const {
    if (kept() == T(0)) std::fill(sums, sums + columns, T(0));
    AddRows(part, rows(), columns, s.width(), sums);
  }

  // Computes grad = kept * grad + part^T y for `columns` columns of `part` and `rows` rows.
  void Multiply(const T* part, int64_t columns, int64_t rows, const T* y, int64_t n, T kept,
                T* grad) const {
    ParallelGemm<T>(gemm,
                    {columns, n, rows, part, 1, s.width(), y, n, 1, grad, n, T(1), kept, nullptr},
                    ctx.n_threads());
  }

  // The input states of the steps are h0 and the states of all steps except the last.
  void WriteStateGrad(const T* part, int64_t columns, T* grad) const {
    const int64_t each = s.n * s.size, row = s.n * s.width();
    const int64_t begin = std::min(std::max<int64_t>(steps.begin, 1), steps.end);
    const int64_t count = steps.end - begin;
    const T* behind = part + (reverse ? 0 : (begin - steps.begin) * row);
    const T* before = states + ((reverse ? begin : begin - 1) - first_state) * each;
    Multiply(behind, columns, count * s.n, count > 0 ? before : states, s.size, kept(), grad);
    if (steps.begin > 0 || steps.end == 0 || h0 == nullptr) return;
    const T* first = part + (reverse ? (steps.end - 1) * row : 0);
    Multiply(first, columns, s.n, h0, s.size, T(1), grad);
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_WEIGHTS_H_
