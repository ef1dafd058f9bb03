// Matrix products of our own, in float32, float64 and whole numbers of 32 and 64 bits, whose sums
// wrap around; one thread each.
//
// The caller owns the threads, so that a kernel can assign the same rows of a weight to one thread
// in every product that reads or writes it: rows that two threads use alternately travel between
// their caches. Nothing is packed but one panel at a time, which suits operands that stay in the
// caches.
#ifndef OPWRIGHT_CPU_GEMM_GEMM_H_
#define OPWRIGHT_CPU_GEMM_GEMM_H_

#include <stdint.h>

namespace opwright_cpu {

// c = beta * c + alpha * a b, with c [m, n] and sums of k terms; with beta 0 c is not read.
template <typename T>
struct GemmCall {
  int64_t m;
  int64_t n;
  int64_t k;
  const T* a;  // element (i, p) at a[i * a_row + p * a_col]
  int64_t a_row;
  int64_t a_col;
  const T* b;  // element (p, j) at b[p * b_row + j * b_col]
  int64_t b_row;
  int64_t b_col;
  T* c;  // element (i, j) at c[i * ldc + j]
  int64_t ldc;
  T alpha;
  T beta;
  T* scratch;  // kGemmScratch elements of the calling thread's own
};

// A panel of b as wide as the widest kernel's, for as many terms as are summed at once.
constexpr int64_t kPanelWidth = 48;
constexpr int64_t kPanelDepth = 192;
constexpr int64_t kGemmScratch = kPanelWidth * kPanelDepth;

template <typename T>
using GemmFn = void (*)(const GemmCall<T>&);

// The best one for the processor that this runs on.
template <typename T>
GemmFn<T> BestGemm();

// Products with a b that is in panels already: of `width` columns, or fewer in the last one,
// side by side, so that b_row is n. n is a multiple of kPanelStep, alpha 1 and scratch not used.
// `multiply` fetches the panel after the current one; `multiply_cached` is for one row, m 1, and a
// b in a cache: with so few sums, fetching would take as long as computing.
struct PanelGemm {
  int64_t width;
  GemmFn<float> multiply;
  GemmFn<float> multiply_cached;
};
constexpr int64_t kPanelStep = 16;
PanelGemm BestPanelGemm();

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_GEMM_H_
