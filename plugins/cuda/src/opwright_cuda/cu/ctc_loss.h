// The paths of ctc_loss through the states of a row. Logarithms are double, because the
// log-probability of a row grows with its length, and gradients depend on its last digits. States
// 0, 2, ..., 2n are blanks, and state 2i + 1 is label i. In each step, a path stays, advances by
// one state, or skips a blank between two different labels. A block processes a row; its threads
// divide the states.
#ifndef OPWRIGHT_CUDA_CTC_LOSS_H_
#define OPWRIGHT_CUDA_CTC_LOSS_H_

#include "functions.h"
#include "lengths.h"
#include "room.h"

#include "opwright/functors/sequences.h"

namespace opwright_cuda {

using opwright::functors::LogOfSum;
using opwright::functors::NeverLog;

// The inputs: x [rows, time, classes] and label [rows, labels].
template <typename T, typename Index>
struct CtcRows {
  const T* x;
  const Index* label;
  Lengths lengths;
  Lengths label_lengths;
  int64_t rows;
  int64_t time;
  int64_t classes;
  int64_t labels;
  int64_t blank;

  // Returns the stride of rows of states; each row has two extra unreachable states.
  OW_INLINE int64_t Stride() const { return 2 * labels + 3; }
};

// One row of the inputs.
template <typename T>
struct CtcRow {
  const T* x;
  const int64_t* class_of;  // class of each state
  int64_t n;                // number of states
  int64_t length;
  int64_t classes;

  OW_INLINE double Score(int64_t t, int64_t state) const {
    return static_cast<double>(Load(x[t * classes + class_of[state]]));
  }
  // Returns whether the blank before a state may be skipped.
  OW_INLINE bool MaySkip(int64_t state) const {
    return state % 2 == 1 && state > 1 && state < n && class_of[state] != class_of[state - 2];
  }
};

// Reads the classes of the states. Labels out of range are replaced by a blank; they are reported
// elsewhere. The block must synchronize before it reads the classes.
template <typename T, typename Index>
OW_INLINE CtcRow<T> ReadRow(const CtcRows<T, Index>& rows, int64_t row, int64_t* class_of) {
  const int64_t n = 2 * rows.label_lengths.Of(row, rows.labels) + 1;
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) {
    int64_t id = rows.blank;
    if (k % 2 == 1) id = static_cast<int64_t>(rows.label[row * rows.labels + k / 2]);
    class_of[k] = id >= 0 && id < rows.classes ? id : rows.blank;
  }
  const T* const x = rows.x + row * rows.time * rows.classes;
  return {x, class_of, n, rows.lengths.Of(row, rows.time), rows.classes};
}

// The forward logarithms of each state before step t; only the last `n_kept` steps are stored.
struct Alphas {
  double* values;
  int64_t stride;
  int64_t n_kept;

  OW_INLINE double* At(int64_t t) const { return values + t % n_kept * stride + 2; }
};

// Returns the log-likelihood of the labels in all threads. Before the first step, every path is in
// state 0, from which it stays or advances to the first label.
template <typename T>
OW_INLINE double GoForward(const CtcRow<T>& row, const Alphas& alphas) {
  for (int64_t t = threadIdx.x; t < alphas.n_kept && t <= row.length; t += blockDim.x) {
    double* const states = alphas.At(t);
    states[-2] = states[-1] = NeverLog();
  }
  for (int64_t k = threadIdx.x; k < row.n; k += blockDim.x) {
    alphas.At(0)[k] = k == 0 ? 0.0 : NeverLog();
  }
  __syncthreads();
  for (int64_t t = 0; t < row.length; ++t) {
    const double* const from = alphas.At(t);
    double* const to = alphas.At(t + 1);
    for (int64_t k = threadIdx.x; k < row.n; k += blockDim.x) {
      const double skipped = row.MaySkip(k) ? from[k - 2] : NeverLog();
      to[k] = LogOfSum(from[k], from[k - 1], skipped) + row.Score(t, k);
    }
    __syncthreads();
  }
  const double* const last = alphas.At(row.length);
  return LogOfSum(last[row.n - 1], row.n > 1 ? last[row.n - 2] : NeverLog(), NeverLog());
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CTC_LOSS_H_
