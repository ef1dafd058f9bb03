// Shapes and metas of tensors.
#ifndef OPWRIGHT_SDK_SHAPE_HPP_
#define OPWRIGHT_SDK_SHAPE_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "opwright/abi.h"
#include "opwright/sdk/dtypes.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {

// True unless both are known and differ; the batch is -1 while a program is built.
constexpr bool DimsAgree(int64_t a, int64_t b) { return a == b || a == -1 || b == -1; }

namespace detail {

[[noreturn]] OPWRIGHT_COLD inline void RefuseAxis(int32_t axis, int32_t rank) {
  throw Exception("axis must be in [", -rank, ", ", rank, "), got ", axis);
}

// An axis counted from the front; a negative one counts from the end.
inline int32_t AxisFromFront(int32_t axis, int32_t rank) {
  const int32_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) RefuseAxis(axis, rank);
  return from_front;
}

}  // namespace detail

// Dimensions, outermost first, -1 if unknown.
class Shape {
 public:
  Shape() = default;  // of a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  Shape(const int64_t* dims, int32_t rank) : dims_(dims, dims + rank) {}

  int32_t rank() const { return static_cast<int32_t>(dims_.size()); }
  const std::vector<int64_t>& dims() const { return dims_; }

  // One dimension; a negative axis counts from the end.
  int64_t dim(int32_t axis) const {
    return dims_[static_cast<size_t>(detail::AxisFromFront(axis, rank()))];
  }

  // The number of elements, or -1 if a dimension is unknown.
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t dim : dims_) {
      if (dim == 0) return 0;
      count = dim < 0 || count < 0 ? -1 : count * dim;
    }
    return count;
  }

  // Whether the shapes may be equal: an unknown dimension agrees with any other. Shape rules use
  // it, since an exact comparison would refuse programs whose batch is not known yet.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank() != b.rank()) return false;
    for (size_t i = 0; i < a.dims_.size(); ++i) {
      if (!DimsAgree(a.dims_[i], b.dims_[i])) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    out << '[';
    for (size_t i = 0; i < shape.dims_.size(); ++i) out << (i > 0 ? ", " : "") << shape.dims_[i];
    return out << ']';
  }

 private:
  std::vector<int64_t> dims_;
};

// Shape and dtype of a tensor without data.
class Meta {
 public:
  explicit Meta(const DLTensor* tensor) : tensor_(tensor) {}

  int32_t rank() const { return tensor_->ndim; }
  Shape shape() const { return Shape(tensor_->shape, tensor_->ndim); }
  int64_t dim(int32_t axis) const { return tensor_->shape[detail::AxisFromFront(axis, rank())]; }
  int64_t numel() const { return shape().numel(); }
  DLDataType dtype() const { return tensor_->dtype; }

  template <typename T>
  bool Is() const {
    return SameDtype(tensor_->dtype, DtypeOf<T>());
  }

 private:
  const DLTensor* tensor_;
};

}  // namespace opwright

#endif  // OPWRIGHT_SDK_SHAPE_HPP_
