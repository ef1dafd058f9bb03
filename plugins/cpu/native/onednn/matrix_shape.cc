#include "onednn/matrix_shape.h"

#include <algorithm>

#include "common/parallel.h"

namespace opwright_cpu {
namespace {

// A factor whose vector has become one row or one column.
struct Factor {
  std::vector<int64_t> stack;
  int64_t rows;
  int64_t columns;
  int64_t strides[2];
};

Factor MakeFactor(const std::vector<int64_t>& shape, bool transpose, bool vector_is_row) {
  if (shape.size() == 1) {
    if (vector_is_row) return {{}, 1, shape[0], {shape[0], 1}};
    return {{}, shape[0], 1, {1, 1}};
  }
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape.back();
  const std::vector<int64_t> stack(shape.begin(), shape.end() - 2);
  if (transpose) return {stack, columns, rows, {1, columns}};
  return {stack, rows, columns, {columns, 1}};
}

// Elements from one matrix to the next along every axis of the common stack.
std::vector<int64_t> StackStrides(const Factor& factor, size_t rank) {
  std::vector<int64_t> strides(rank, 0);
  int64_t stride = factor.rows * factor.columns;
  for (size_t i = 0; i < factor.stack.size(); ++i) {
    const int64_t dim = factor.stack[factor.stack.size() - 1 - i];
    if (dim != 1) strides[rank - 1 - i] = stride;
    stride *= dim;
  }
  return strides;
}

int64_t CommonDim(const Factor& x, const Factor& y, size_t from_back) {
  const int64_t left = from_back < x.stack.size() ? x.stack[x.stack.size() - 1 - from_back] : 1;
  const int64_t right = from_back < y.stack.size() ? y.stack[y.stack.size() - 1 - from_back] : 1;
  return left == 1 ? right : left;
}

// Adds an axis inside the others, as one with its neighbour where the strides allow it.
void AddAxis(const StackAxis& axis, std::vector<StackAxis>* stack) {
  if (axis.size == 1) return;
  if (!stack->empty()) {
    StackAxis& outer = stack->back();
    if (outer.x_stride == axis.x_stride * axis.size &&
        outer.y_stride == axis.y_stride * axis.size) {
      outer = {outer.size * axis.size, axis.x_stride, axis.y_stride};
      return;
    }
  }
  stack->push_back(axis);
}

// Many matrices times one are one tall matrix times it, where the rows follow each other.
void JoinRows(MatrixShape* shape) {
  if (shape->stack.size() != 1 || shape->stack[0].y_stride != 0) return;
  const StackAxis axis = shape->stack[0];
  if (shape->x_strides[1] != 1 || axis.x_stride != shape->size.m * shape->x_strides[0]) return;
  shape->size.m *= axis.size;
  shape->stack.clear();
  shape->stack_size = 1;
}

// Adds copies of `whole`, which `cut` then makes parts of: cut(&part, begin, length).
template <typename Cut>
std::vector<MatrixPart> SplitLength(const MatrixPart& whole, int64_t length, int64_t step,
                                    int32_t n_parts, const Cut& cut) {
  std::vector<MatrixPart> parts;
  for (int32_t i = 0; i < n_parts; ++i) {
    const Part range = PartOf(length, step, i, n_parts);
    if (range.begin >= range.end) continue;
    parts.push_back(whole);
    cut(&parts.back(), range.begin, range.end - range.begin);
  }
  return parts;
}

std::vector<MatrixPart> SplitStack(const MatrixPart& whole, size_t axis, int32_t n_parts) {
  const StackAxis split = whole.shape.stack[axis];
  return SplitLength(whole, split.size, 1, n_parts,
                     [=](MatrixPart* part, int64_t begin, int64_t length) {
                       part->shape.stack[axis].size = length;
                       part->shape.stack_size = part->shape.stack_size / split.size * length;
                       part->x = begin * split.x_stride;
                       part->y = begin * split.y_stride;
                       part->out = begin * part->out_strides[axis];
                     });
}

std::vector<MatrixPart> SplitRows(const MatrixPart& whole, int32_t n_parts) {
  constexpr int64_t kStep = 8;
  return SplitLength(whole, whole.shape.size.m, kStep, n_parts,
                     [](MatrixPart* part, int64_t begin, int64_t length) {
                       part->shape.size.m = length;
                       part->x = begin * part->shape.x_strides[0];
                       part->out = begin * part->out_strides.back();
                     });
}

std::vector<MatrixPart> SplitColumns(const MatrixPart& whole, int32_t n_parts) {
  constexpr int64_t kStep = 16;
  return SplitLength(whole, whole.shape.size.n, kStep, n_parts,
                     [](MatrixPart* part, int64_t begin, int64_t length) {
                       part->shape.size.n = length;
                       part->y = begin * part->shape.y_strides[1];
                       part->out = begin;
                       part->column = begin;
                     });
}

}  // namespace

MatrixShape::Offsets MatrixShape::At(int64_t index) const {
  Offsets offsets{0, 0};
  for (auto axis = stack.rbegin(); axis != stack.rend(); ++axis) {
    const int64_t position = index % axis->size;
    index /= axis->size;
    offsets.x += position * axis->x_stride;
    offsets.y += position * axis->y_stride;
  }
  return offsets;
}

MatrixShape MakeMatrixShape(const std::vector<int64_t>& x_shape,
                            const std::vector<int64_t>& y_shape, bool transpose_x,
                            bool transpose_y) {
  const Factor x = MakeFactor(x_shape, transpose_x, true);
  const Factor y = MakeFactor(y_shape, transpose_y, false);
  MatrixShape shape;
  shape.size = {x.rows, y.columns, x.columns};
  std::copy(x.strides, x.strides + 2, shape.x_strides);
  std::copy(y.strides, y.strides + 2, shape.y_strides);
  const size_t rank = std::max(x.stack.size(), y.stack.size());
  const std::vector<int64_t> x_stack = StackStrides(x, rank);
  const std::vector<int64_t> y_stack = StackStrides(y, rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t dim = CommonDim(x, y, rank - 1 - axis);
    shape.stack_size *= dim;
    AddAxis({dim, x_stack[axis], y_stack[axis]}, &shape.stack);
  }
  JoinRows(&shape);
  return shape;
}

std::vector<MatrixPart> SplitProduct(const MatrixShape& shape, int32_t n_parts) {
  MatrixPart whole;
  whole.shape = shape;
  int64_t stride = shape.size.n;
  whole.out_strides.assign(shape.stack.size() + 1, stride);
  stride *= shape.size.m;
  for (size_t axis = shape.stack.size(); axis-- > 0; stride *= shape.stack[axis].size) {
    whole.out_strides[axis] = stride;
  }
  const auto stacked = std::find_if(shape.stack.begin(), shape.stack.end(),
                                    [=](const StackAxis& axis) { return axis.size >= n_parts; });
  if (stacked != shape.stack.end()) {
    return SplitStack(whole, static_cast<size_t>(stacked - shape.stack.begin()), n_parts);
  }
  // Every thread reads the whole of one factor: the smaller one, best.
  return shape.size.m >= shape.size.n ? SplitRows(whole, n_parts) : SplitColumns(whole, n_parts);
}

}  // namespace opwright_cpu
