// One step of a recurrent layer, forward or backward, for some rows of the batch:
// the work between the products. Gates are contiguous in a row, Width(kind) * size numbers.
#ifndef OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_
#define OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_

#include <algorithm>
#include <cstdint>

namespace opwright_cpu {

enum class Recurrent { kLstm, kGru, kTanh, kRelu };

// Parts of a weight: i, f, g and o, or r, z and n, or one.
constexpr int64_t GatesOf(Recurrent kind) {
  return kind == Recurrent::kLstm ? 4 : kind == Recurrent::kGru ? 3 : 1;
}
// Parts of the stored results of a step. A GRU's fourth is the part of its state in n, apart from
// x.
constexpr int64_t WidthOf(Recurrent kind) { return GatesOf(kind) == 1 ? 1 : 4; }

// Rows of one step; all arrays but `gates` have `size` numbers a row.
template <typename T>
struct StepRows {
  int64_t rows;
  int64_t size;
  const int64_t* lengths;  // of these rows; NULL: no sequence has ended
  int64_t step;
  T* gates;  // sums before the step, and its stored results after it
  const T* old_state;
  const T* old_cell;  // of an LSTM
  T* state;           // may be `gates` of a plain layer
  T* cell;
};

template <typename T>
void RunStep(Recurrent kind, const StepRows<T>& at);

// For an LSTM, from the gates of RunStep: the cells again, with the same bits.
template <typename T>
void RunCellsAgain(const StepRows<T>& at);

// And the states, from gates and cells; zeros for sequences that have ended.
template <typename T>
void RunStatesAgain(const StepRows<T>& at);

// The gradients through one step. `state_grad` and `cell_grad` are read and overwritten: the
// gradients of the outputs of the step become those of its inputs, without the part through
// the products. `parts` gets the gradients of the sums, in rows like `gates`, and may be these.
template <typename T>
struct StepBack {
  StepRows<T> at;
  const T* out_grad;  // rows `out_stride` apart; NULL: zeros
  int64_t out_stride;
  T* state_grad;
  T* cell_grad;
  T* parts;
  T* states;  // of an LSTM: gets the results of RunStatesAgain; NULL: not wanted
};

template <typename T>
void RunStepBack(Recurrent kind, const StepBack<T>& back);

// The gradient of a state that the loss depends on directly: `given`, or zeros if it is NULL.
template <typename T>
void StartGrad(const T* given, int64_t n, T* grad) {
  if (given == nullptr) {
    std::fill(grad, grad + n, T(0));
  } else {
    std::copy(given, given + n, grad);
  }
}

// Adds a bias to rows of n numbers, `stride` apart.
template <typename T>
void AddBias(const T* bias, int64_t rows, int64_t n, int64_t stride, T* x);

// Adds to sums[j] element j of each row.
template <typename T>
void AddRows(const T* x, int64_t rows, int64_t n, int64_t stride, T* sums);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_RECURRENT_STEPS_H_
