// Describes a matrix product, by NumPy's rules, as a batch of products of strided matrices.
#ifndef OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_
#define OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_

#include <cstdint>
#include <vector>

#include "matmul/gemm.h"

namespace opwright_cpu {

// A batch axis, with the strides between matrices of x and y (0 if broadcast) and out.
struct StackAxis {
  int64_t size;
  int64_t x_stride;
  int64_t y_stride;
  int64_t out_stride;
};

// An array whose axes may be permuted in memory.
struct Laid {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// Makes an array in which axis i is axis axes[i] of a compact array of this shape; an empty list
// means no permutation.
Laid LaidBy(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes);

// The shape of out[s] = x[s] y[s] for every matrix s of a batch. Rows of out are contiguous.
struct MatrixShape {
  GemmSize size{};
  int64_t x_strides[2] = {};  // row stride and column stride
  int64_t y_strides[2] = {};
  int64_t out_row = 0;           // row stride of out
  std::vector<StackAxis> stack;  // batch axes, merged as far as possible, outermost first
  int64_t stack_size = 1;

  // The offsets of one matrix of the batch, as returned by At.
  struct Offsets {
    int64_t x;
    int64_t y;
    int64_t out;
  };
  Offsets At(int64_t index) const;

  int64_t Multiplications() const { return stack_size * size.m * size.n * size.k; }
};

// An independent part of a product: a range of batch matrices, or of rows or columns of out.
struct MatrixPart {
  MatrixShape shape;
  std::vector<int64_t>
      out_strides;  // strides of the batch axes and of rows; the column stride is 1
  int64_t x = 0;    // index of the part's first element
  int64_t y = 0;
  int64_t out = 0;
  int64_t column = 0;
};

// Splits a product into at most n_parts parts of about the same size, with multiples of the vector
// width as rows and columns.
std::vector<MatrixPart> SplitProduct(const MatrixShape& shape, int32_t n_parts);

// Axis i of out, [batch, m, n], is axis out_axes[i] of x y; an empty list means no permutation. The
// shape rule has checked that the shapes fit.
MatrixShape MakeMatrixShape(const Laid& x, const Laid& y, const std::vector<int64_t>& out_axes);

// Makes the shape for compact arrays.
MatrixShape MakeMatrixShape(const std::vector<int64_t>& x, const std::vector<int64_t>& y,
                            bool transpose_x, bool transpose_y);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MATMUL_MATRIX_SHAPE_H_
