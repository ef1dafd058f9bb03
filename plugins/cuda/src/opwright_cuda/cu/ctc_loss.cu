// ctc_loss and its gradient.
#include "ctc_loss.h"
#include "reduce.h"

using namespace opwright_cuda;

// Reports labels that are out of range or equal to the blank, with one thread per label.
template <typename Index>
__global__ void check_ctc_labels(const Index* label, Lengths label_lengths, int64_t rows,
                                 int64_t labels, int64_t classes, int64_t blank, Fault* fault,
                                 int32_t range_text, int32_t blank_text) {
  for (int64_t k = GlobalIndex(); k < rows * labels; k += GridThreads()) {
    const int64_t row = k / labels;
    if (k - row * labels >= label_lengths.Of(row, labels)) continue;
    const auto id = static_cast<int64_t>(label[k]);
    if (id < 0 || id >= classes) Report(fault, range_text, id);
    if (id == blank) Report(fault, blank_text, id);
  }
}

// The scratch memory holds the classes of all states, and their logarithms before and after a step.
template <typename T, typename Index>
__global__ void ctc_loss(T* out, CtcRows<T, Index> rows, bool zero_infinity, Room room) {
  int64_t* const class_of = room.OfBlock<int64_t>();
  const Alphas alphas{reinterpret_cast<double*>(class_of + rows.Stride()), rows.Stride(), 2};
  for (int64_t i = blockIdx.x; i < rows.rows; i += gridDim.x) {
    const CtcRow<T> row = ReadRow(rows, i, class_of);
    __syncthreads();
    const double loss = -GoForward(row, alphas);
    if (threadIdx.x == 0) {
      out[i] = Store<T>(zero_infinity && loss == -NeverLog() ? 0.0 : loss);
    }
    __syncthreads();  // before the next row starts
  }
}

// The index of the next label of the same class, or -1 after the last, and whether the label is the
// first of its class.
struct Link {
  int32_t next;
  bool is_first;
};

template <typename T>
OW_INLINE void LinkLabels(const CtcRow<T>& row, Link* links) {
  const int32_t n = static_cast<int32_t>(row.n / 2);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += blockDim.x) {
    const int64_t id = row.class_of[2 * i + 1];
    int32_t next = i + 1, before = i - 1;
    while (next < n && row.class_of[2 * next + 1] != id) ++next;
    while (before >= 0 && row.class_of[2 * before + 1] != id) --before;
    links[i] = {next < n ? next : -1, before < 0};
  }
}

// Subtracts each class's share of the likelihood, times `loss_grad`, from the gradient of a step.
// The share of a class is the sum of `shares` over its states. The gradient must be initialized
// with 0.
template <typename T>
OW_INLINE void WriteStep(const CtcRow<T>& row, const Link* links, const double* shares,
                         double loss_grad, T* grad) {
  double of_blank = 0;
  for (int64_t k = 2 * static_cast<int64_t>(threadIdx.x); k < row.n; k += 2 * blockDim.x) {
    of_blank += shares[k];
  }
  of_blank = BlockSum(of_blank);
  if (threadIdx.x == 0 && of_blank != 0) grad[row.class_of[0]] = Store<T>(-of_blank * loss_grad);
  for (int64_t i = threadIdx.x; i < row.n / 2; i += blockDim.x) {
    if (!links[i].is_first) continue;
    double sum = 0;
    for (int32_t k = static_cast<int32_t>(i); k >= 0; k = links[k].next) sum += shares[2 * k + 1];
    if (sum != 0) grad[row.class_of[2 * i + 1]] = Store<T>(-sum * loss_grad);
  }
}

// Runs the backward pass from the last step. `onward` holds the backward logarithms of two steps,
// which take two rows of states plus two elements.
template <typename T>
OW_INLINE void GoBack(const CtcRow<T>& row, const Alphas& alphas, double end, const Link* links,
                      double* onward, double* shares, double loss_grad, T* x_grad) {
  double* from = onward;
  double* to = onward + alphas.stride;
  if (threadIdx.x < 2) from[row.n + threadIdx.x] = to[row.n + threadIdx.x] = NeverLog();
  __syncthreads();
  for (int64_t t = row.length - 1; t >= 0; --t) {
    const double* const alpha = alphas.At(t + 1);
    for (int64_t k = threadIdx.x; k < row.n; k += blockDim.x) {
      double beta = k >= row.n - 2 ? 0.0 : NeverLog();
      if (t < row.length - 1) {
        beta = LogOfSum(from[k], from[k + 1], row.MaySkip(k + 2) ? from[k + 2] : NeverLog());
      }
      shares[k] = functors::Exp(alpha[k] + beta - end);
      to[k] = beta + row.Score(t, k);
    }
    __syncthreads();
    WriteStep(row, links, shares, loss_grad, x_grad + t * row.classes);
    double* const old = from;
    from = to;
    to = old;
    __syncthreads();
  }
}

// The scratch memory holds the classes and links of all states, and three rows of states. `alphas`
// holds all steps of the row of each block. The forward pass is recomputed, because storing it
// would take too much memory for the time saved. `x_grad` must be initialized with 0.
template <typename T, typename Index>
__global__ void ctc_loss_grad(T* x_grad, const T* out_grad, CtcRows<T, Index> rows, double* alphas,
                              Room room) {
  const int64_t stride = rows.Stride(), n_kept = rows.time + 1;
  int64_t* const class_of = room.OfBlock<int64_t>();
  Link* const links = reinterpret_cast<Link*>(class_of + stride);
  double* const shares = reinterpret_cast<double*>(links + stride);
  const Alphas of_block{alphas + blockIdx.x * n_kept * stride, stride, n_kept};
  for (int64_t i = blockIdx.x; i < rows.rows; i += gridDim.x) {
    const CtcRow<T> row = ReadRow(rows, i, class_of);
    __syncthreads();
    LinkLabels(row, links);
    const double end = GoForward(row, of_block);
    if (end != NeverLog()) {  // otherwise the loss is infinite in a neighborhood of x
      const double loss_grad = static_cast<double>(Load(out_grad[i]));
      GoBack(row, of_block, end, links, shares + stride, shares, loss_grad,
             x_grad + i * rows.time * rows.classes);
    }
    __syncthreads();  // before the next row starts
  }
}
