// A matrix product by NumPy's rules as matrices with strides, and stacks of them.
#ifndef OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_
#define OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_

#include <cstdint>
#include <vector>

#include "matmul/gemm.h"

namespace opwright_cpu {

// One axis of a stack: the distance to the next matrix of each factor, 0 if it is repeated, and of
// out.
struct StackAxis {
  int64_t size;
  int64_t x_stride;
  int64_t y_stride;
  int64_t out_stride;
};

// An array whose axes may be in memory in another order.
struct Laid {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// Axis i is axis axes[i] of a compact array of this shape; none: the same one.
Laid LaidBy(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes);

// out[s] = x[s] y[s] for every matrix s of a stack; the columns of out are contiguous.
struct MatrixShape {
  GemmSize size{};
  int64_t x_strides[2] = {};  // of rows and of columns
  int64_t y_strides[2] = {};
  int64_t out_row = 0;           // stride of its rows
  std::vector<StackAxis> stack;  // outermost first, as few axes as describe it
  int64_t stack_size = 1;

  // The offset of matrix `index` of the stack in each factor.
  struct Offsets {
    int64_t x;
    int64_t y;
    int64_t out;
  };
  Offsets At(int64_t index) const;

  int64_t Multiplications() const { return stack_size * size.m * size.n * size.k; }
};

// Some matrices of a stack, some rows or some columns of out: an independent product.
struct MatrixPart {
  MatrixShape shape;
  std::vector<int64_t>
      out_strides;  // of the stack's axes and of the rows; the columns are contiguous
  int64_t x = 0;    // element that the part begins with
  int64_t y = 0;
  int64_t out = 0;
  int64_t column = 0;
};

// At most n_parts parts of about the same size, whose rows and columns are whole vectors.
std::vector<MatrixPart> SplitProduct(const MatrixShape& shape, int32_t n_parts);

// Axis i of out, [stack, m, n], is axis out_axes[i] of x y; none: the same one. The shape rule has
// checked that all fit.
MatrixShape MakeMatrixShape(const Laid& x, const Laid& y, const std::vector<int64_t>& out_axes);

// Of compact arrays.
MatrixShape MakeMatrixShape(const std::vector<int64_t>& x, const std::vector<int64_t>& y,
                            bool transpose_x, bool transpose_y);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_
