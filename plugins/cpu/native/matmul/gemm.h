// Single-threaded matrix products with any layout, for integers and float64, which oneDNN does not
// support, and for float32 products that are too small for a call of oneDNN.
#ifndef OPWRIGHT_CPU_MATMUL_GEMM_H_
#define OPWRIGHT_CPU_MATMUL_GEMM_H_

#include <cstdint>

#include "gemm/gemm.h"

namespace opwright_cpu {

// A matrix with any strides, given in elements.
template <typename T>
struct MatrixView {
  T* data;
  int64_t row_stride;
  int64_t column_stride;

  MatrixView At(int64_t row, int64_t column) const {
    return {data + row * row_stride + column * column_stride, row_stride, column_stride};
  }
  MatrixView Transposed() const { return {data, column_stride, row_stride}; }
};

struct GemmSize {
  int64_t m;
  int64_t n;
  int64_t k;
};

// The size in bytes of the scratch memory that Gemm needs.
template <typename T>
constexpr uint64_t kGemmWorkspaceBytes = static_cast<uint64_t>(kGemmScratch) * sizeof(T);

// Computes c = a b in one thread. c must have contiguous rows (column_stride 1) and not overlap a
// or b. Float sums run over blocks of k in a fixed order, for any number of threads.
template <typename T>
void Gemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          void* workspace);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_GEMM_H_
