// The work between the products in one step of a recurrent layer, forward or backward, for a range
// of batch rows. The gates of a row are WidthOf(kind) * size contiguous values.
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_

#include <algorithm>
#include <cstdint>

namespace opwright_cpu {

enum class Recurrent { kLstm, kGru, kTanh, kRelu };

// Returns the number of gates in a weight: 4 for an LSTM (i, f, g, o), 3 for a GRU (r, z, n),
// otherwise 1.
constexpr int64_t GatesOf(Recurrent kind) {
  return kind == Recurrent::kLstm ? 4 : kind == Recurrent::kGru ? 3 : 1;
}
// Returns the number of values stored per element of a step. In a GRU, the fourth value is the
// contribution of the state to n, separate from the contribution of x.
constexpr int64_t WidthOf(Recurrent kind) { return GatesOf(kind) == 1 ? 1 : 4; }

// Rows of one step; all arrays except `gates` have `size` elements per row.
template <typename T>
struct StepRows {
  int64_t rows;
  int64_t size;
  const int64_t* lengths;  // sequence lengths of these rows; NULL if no sequence has ended
  int64_t step;
  T* gates;  // pre-activations before the step, stored results after it
  const T* old_state;
  const T* old_cell;  // LSTM only
  T* state;           // may equal `gates` in a plain layer
  T* cell;
};

template <typename T>
void RunStep(Recurrent kind, const StepRows<T>& at);

// Recomputes the cells of an LSTM, bit for bit, from the gates that RunStep stored.
template <typename T>
void RunCellsAgain(const StepRows<T>& at);

// Recomputes the states of an LSTM from gates and cells, with zeros for sequences that have ended.
template <typename T>
void RunStatesAgain(const StepRows<T>& at);

// The gradients through one step. `state_grad` and `cell_grad` are updated in place, from output
// gradients to input gradients of the step, without the contribution through the products. `parts`
// receives the pre-activation gradients, in rows like `gates`, and may alias `gates`.
template <typename T>
struct StepBack {
  StepRows<T> at;
  const T* out_grad;  // rows are `out_stride` apart; NULL stands for zeros
  int64_t out_stride;
  T* state_grad;
  T* cell_grad;
  T* parts;
  T* states;  // LSTM only: receives the results of RunStatesAgain; NULL if not requested
};

template <typename T>
void RunStepBack(Recurrent kind, const StepBack<T>& back);

// Initializes a state gradient with `given`, or with zeros if `given` is NULL.
template <typename T>
void StartGrad(const T* given, int64_t n, T* grad) {
  if (given == nullptr) {
    std::fill(grad, grad + n, T(0));
  } else {
    std::copy(given, given + n, grad);
  }
}

// Adds a bias to rows of n elements, which are `stride` apart.
template <typename T>
void AddBias(const T* bias, int64_t rows, int64_t n, int64_t stride, T* x);

// Adds element j of each row to sums[j].
template <typename T>
void AddRows(const T* x, int64_t rows, int64_t n, int64_t stride, T* sums);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_
