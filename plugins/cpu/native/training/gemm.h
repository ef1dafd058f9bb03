// Matrix products of the sizes of a training step: operands fit into the caches, no packing.
//
// Large products are oneDNN's. Here the caller owns the threads: a product runs in the thread that
// asks for it, so that a kernel can let one thread own the same rows of a weight in every product
// that reads or writes it. Rows that two threads take turns with travel between their caches.
#ifndef OPWRIGHT_CPU_TRAINING_GEMM_H_
#define OPWRIGHT_CPU_TRAINING_GEMM_H_

#include <stdint.h>

namespace opwright_cpu {

// c = beta * c + alpha * a b, with c [m, n] and the sum over k; with beta 0 c is not read.
template <typename T>
struct GemmCall {
  int64_t m;
  int64_t n;
  int64_t k;
  const T* a;  // element (i, p) at a[i * a_row + p * a_col]
  int64_t a_row;
  int64_t a_col;
  const T* b;  // element (p, j) at b[p * ldb + j]; transposed: at b[j * ldb + p]
  int64_t ldb;
  bool b_transposed;
  T* c;
  int64_t ldc;
  T alpha;
  T beta;
  T* scratch;  // GemmScratch(k) elements of the calling thread's own
};

// Elements that a product over k may need: one panel of b, as wide as the widest of all kernels.
constexpr int64_t kPanelWidth = 48;
constexpr int64_t GemmScratch(int64_t k) { return k * kPanelWidth; }

template <typename T>
using GemmFn = void (*)(const GemmCall<T>&);

// The best one for the processor that this runs on.
template <typename T>
GemmFn<T> BestGemm();

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_TRAINING_GEMM_H_
