// Matrix products of our own: float64 and integers, which oneDNN does not multiply, and products so
// small that a call of oneDNN costs more than the work.
#ifndef OPWRIGHT_CPU_ONEDNN_GEMM_H_
#define OPWRIGHT_CPU_ONEDNN_GEMM_H_

#include <cstdint>

namespace opwright_cpu {

// A matrix with any strides, counted in elements.
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

// Scratch memory, in bytes, of one thread of Gemm for float32 and float64.
uint64_t GemmWorkspaceBytes(const GemmSize& size, uint64_t item_bytes);

// c = a b in one thread; c has columns side by side (column_stride 1) and overlaps neither factor.
// Float sums run over blocks of k in a fixed order, whatever the threads.
template <typename T>
void Gemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          void* workspace);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_GEMM_H_
