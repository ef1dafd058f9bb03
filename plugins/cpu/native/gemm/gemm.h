// Single-threaded matrix products in float32, float64, and 32-bit and 64-bit integers. Integer sums
// wrap around.
//
// The caller manages the threads, so a kernel can assign the same weight rows to one thread in
// every product that reads or writes the weight. Rows that two threads use alternately would move
// between their caches. Only one panel is packed at a time, which suits operands that stay in the
// caches.
#ifndef OPWRIGHT_CPU_GEMM_GEMM_H_
#define OPWRIGHT_CPU_GEMM_GEMM_H_

#include <stdint.h>

namespace opwright_cpu {

// Computes c = beta * c + alpha * a b for c [m, n] and sums of k terms; c is not read if beta is 0.
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
  T* scratch;  // kGemmScratch elements that belong to the calling thread
};

// The size of a packed panel of b. The width of a panel is the tile width of the widest kernel, and
// its depth is the number of terms that are summed at once.
constexpr int64_t kPanelWidth = 48;
constexpr int64_t kPanelDepth = 192;
constexpr int64_t kGemmScratch = kPanelWidth * kPanelDepth;

template <typename T>
using GemmFn = void (*)(const GemmCall<T>&);

// Returns the fastest product for the current processor.
template <typename T>
GemmFn<T> BestGemm();

// Products in which b is already stored in panels. Each panel has `width` columns; the last panel
// may have fewer. Panels are side by side, so b_row is n. n is a multiple of kPanelStep, alpha is
// 1, and scratch is unused. `multiply` prefetches the next panel. `multiply_cached`, for one row (m
// = 1) and a cached b, does not prefetch, since this would take as long as so few sums.
struct PanelGemm {
  int64_t width;
  GemmFn<float> multiply;
  GemmFn<float> multiply_cached;
};
constexpr int64_t kPanelStep = 16;
PanelGemm BestPanelGemm();

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_GEMM_H_
