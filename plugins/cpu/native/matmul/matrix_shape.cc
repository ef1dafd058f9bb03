#include "matmul/matrix_shape.h"

#include <algorithm>
#include <utility>

#include "common/parallel.h"

namespace opwright_cpu {
namespace {

// A factor of a product. A vector becomes a matrix with one row or one column.
struct Factor {
  Laid stack;
  int64_t rows;
  int64_t columns;
  int64_t strides[2];
};

Factor MakeFactor(const Laid& array, bool vector_is_row) {
  const std::vector<int64_t>&dims = array.dims, &strides = array.strides;
  if (dims.size() == 1) {
    if (vector_is_row) return {{}, 1, dims[0], {dims[0], 1}};
    return {{}, dims[0], 1, {1, 1}};
  }
  const size_t rank = dims.size();
  return {{{dims.begin(), dims.end() - 2}, {strides.begin(), strides.end() - 2}},
          dims[rank - 2],
          dims[rank - 1],
          {strides[rank - 2], strides[rank - 1]}};
}

// Returns the strides between matrices along every batch axis.
std::vector<int64_t> StackStrides(const Factor& factor, size_t rank) {
  std::vector<int64_t> strides(rank, 0);
  const size_t missing = rank - factor.stack.dims.size();
  for (size_t i = 0; i < factor.stack.dims.size(); ++i) {
    if (factor.stack.dims[i] != 1) strides[missing + i] = factor.stack.strides[i];
  }
  return strides;
}

int64_t CommonDim(const Factor& x, const Factor& y, size_t from_back) {
  const auto dim = [=](const std::vector<int64_t>& dims) {
    return from_back < dims.size() ? dims[dims.size() - 1 - from_back] : 1;
  };
  return dim(x.stack.dims) == 1 ? dim(y.stack.dims) : dim(x.stack.dims);
}

// Returns the strides along each axis of x y. The product x y is stored in a compact array, in
// which axis i is axis axes[i] of x y.
std::vector<int64_t> OutStrides(const std::vector<int64_t>& dims,
                                const std::vector<int64_t>& axes) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const size_t axis = axes.empty() ? i : static_cast<size_t>(axes[i]);
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return strides;
}

// Appends an innermost axis, or merges it with the previous axis if the strides allow it.
void AddAxis(const StackAxis& axis, std::vector<StackAxis>* stack) {
  if (axis.size == 1) return;
  if (!stack->empty()) {
    StackAxis& outer = stack->back();
    if (outer.x_stride == axis.x_stride * axis.size &&
        outer.y_stride == axis.y_stride * axis.size &&
        outer.out_stride == axis.out_stride * axis.size) {
      outer = {outer.size * axis.size, axis.x_stride, axis.y_stride, axis.out_stride};
      return;
    }
  }
  stack->push_back(axis);
}

// Merges many matrices with a common right factor into a tall matrix if their rows are contiguous.
void JoinRows(MatrixShape* shape) {
  if (shape->stack.size() != 1 || shape->stack[0].y_stride != 0) return;
  const StackAxis axis = shape->stack[0];
  if (shape->x_strides[1] != 1 || axis.x_stride != shape->size.m * shape->x_strides[0]) return;
  if (axis.out_stride != shape->size.m * shape->out_row) return;
  shape->size.m *= axis.size;
  shape->stack.clear();
  shape->stack_size = 1;
}

// Splits `whole` into parts. Each part is a copy on which cut(&part, begin, length) is called.
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
  Offsets offsets{0, 0, 0};
  for (auto axis = stack.rbegin(); axis != stack.rend(); ++axis) {
    const int64_t position = index % axis->size;
    index /= axis->size;
    offsets.x += position * axis->x_stride;
    offsets.y += position * axis->y_stride;
    offsets.out += position * axis->out_stride;
  }
  return offsets;
}

Laid LaidBy(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes) {
  std::vector<int64_t> compact(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) compact[axis] = stride;
  if (axes.empty()) return {shape, compact};
  Laid laid;
  for (const int64_t axis : axes) {
    laid.dims.push_back(shape[static_cast<size_t>(axis)]);
    laid.strides.push_back(compact[static_cast<size_t>(axis)]);
  }
  return laid;
}

MatrixShape MakeMatrixShape(const std::vector<int64_t>& x_shape,
                            const std::vector<int64_t>& y_shape, bool transpose_x,
                            bool transpose_y) {
  Laid x = LaidBy(x_shape, {}), y = LaidBy(y_shape, {});
  for (Laid* laid : {&x, &y}) {
    if (!(laid == &x ? transpose_x : transpose_y)) continue;
    std::swap(laid->dims.back(), laid->dims[laid->dims.size() - 2]);
    std::swap(laid->strides.back(), laid->strides[laid->strides.size() - 2]);
  }
  return MakeMatrixShape(x, y, {});
}

MatrixShape MakeMatrixShape(const Laid& x_laid, const Laid& y_laid,
                            const std::vector<int64_t>& out_axes) {
  const Factor x = MakeFactor(x_laid, true);
  const Factor y = MakeFactor(y_laid, false);
  MatrixShape shape;
  shape.size = {x.rows, y.columns, x.columns};
  std::copy(x.strides, x.strides + 2, shape.x_strides);
  std::copy(y.strides, y.strides + 2, shape.y_strides);
  const size_t rank = std::max(x.stack.dims.size(), y.stack.dims.size());
  const std::vector<int64_t> x_stack = StackStrides(x, rank);
  const std::vector<int64_t> y_stack = StackStrides(y, rank);
  std::vector<int64_t> dims(rank);
  for (size_t axis = 0; axis < rank; ++axis) dims[axis] = CommonDim(x, y, rank - 1 - axis);
  dims.insert(dims.end(), {shape.size.m, shape.size.n});
  const std::vector<int64_t> out = OutStrides(dims, out_axes);
  shape.out_row = out[rank];
  for (size_t axis = 0; axis < rank; ++axis) {
    shape.stack_size *= dims[axis];
    AddAxis({dims[axis], x_stack[axis], y_stack[axis], out[axis]}, &shape.stack);
  }
  JoinRows(&shape);
  return shape;
}

std::vector<MatrixPart> SplitProduct(const MatrixShape& shape, int32_t n_parts) {
  MatrixPart whole;
  whole.shape = shape;
  for (const StackAxis& axis : shape.stack) whole.out_strides.push_back(axis.out_stride);
  whole.out_strides.push_back(shape.out_row);
  const auto stacked = std::find_if(shape.stack.begin(), shape.stack.end(),
                                    [=](const StackAxis& axis) { return axis.size >= n_parts; });
  if (stacked != shape.stack.end()) {
    return SplitStack(whole, static_cast<size_t>(stacked - shape.stack.begin()), n_parts);
  }
  // Every thread reads one factor completely, preferably the smaller factor.
  return shape.size.m >= shape.size.n ? SplitRows(whole, n_parts) : SplitColumns(whole, n_parts);
}

}  // namespace opwright_cpu
