// Products x^T y of row-major matrices, as in the weight gradient of a layer: both matrices have
// few columns, and sums run over all rows of a batch. oneDNN uses its generic loops for this layout
// and compiles 3 MB of code for the first such product.
#ifndef OPWRIGHT_CPU_MATMUL_TURNED_PRODUCT_H_
#define OPWRIGHT_CPU_MATMUL_TURNED_PRODUCT_H_

#include <algorithm>
#include <cstdint>

#include "gemm/gemm.h"
#include "matmul/gemm.h"
#include "matmul/matrix_shape.h"

namespace opwright_cpu {

// Columns of x per block; the rows of a block stay in the L2 cache while panels of y are read.
constexpr int64_t kTurnedColumns = 252;
constexpr int64_t kTurnedRows = 252;

// Returns whether the columns of y fill complete panels.
inline bool HasPanels(const MatrixShape& shape) { return shape.size.n % kPanelStep == 0; }

// Returns whether our own loops are at least as fast as oneDNN on processors with AVX-512.
// The measured ratio of times is 0.8 to 1.0, up to 1.2 for more columns, up to 1.5 for very few.
inline bool IsTurned(const MatrixShape& shape) {
  constexpr int64_t kFewestTerms = 512;
  const GemmSize& size = shape.size;
  const bool is_turned =
      shape.stack_size == 1 && shape.x_strides[0] == 1 && shape.y_strides[1] == 1;
  if (!is_turned || size.k < kFewestTerms || size.m > kTurnedColumns) return false;
  if (HasPanels(shape)) return size.m >= 16 && size.n <= 512;
  return size.m >= 64 && size.n >= 32 && size.n <= 128;
}

// Computes c = a b for a transposed a. Each sum runs over blocks of rows in a fixed order.
inline void MultiplyTurned(const GemmSize& size, MatrixView<const float> a,
                           MatrixView<const float> b, MatrixView<float> c) {
  static const PanelGemm product = BestPanelGemm();
  for (int64_t row = 0; row < size.k; row += kTurnedRows) {
    const int64_t rows = std::min(kTurnedRows, size.k - row);
    const float* x = a.At(0, row).data;
    for (int64_t column = 0; column < size.n; column += product.width) {
      product.multiply({size.m, std::min(product.width, size.n - column), rows, x, 1,
                        a.column_stride, b.At(row, column).data, b.row_stride, 1,
                        c.At(0, column).data, c.row_stride, 1.0f, row == 0 ? 0.0f : 1.0f, nullptr});
    }
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_TURNED_PRODUCT_H_
