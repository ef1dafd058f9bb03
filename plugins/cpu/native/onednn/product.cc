#include "onednn/product.h"

#include <vector>

namespace opwright_cpu {
namespace {

using dnnl::memory;

memory::desc Factor(const ProductRequest& request, bool is_x) {
  const MatrixShape& shape = request.shape;
  const int64_t* matrix_strides = is_x ? shape.x_strides : shape.y_strides;
  memory::dims dims, strides;
  for (const StackAxis& axis : shape.stack) {
    const int64_t stride = is_x ? axis.x_stride : axis.y_stride;
    dims.push_back(stride == 0 ? 1 : axis.size);
    strides.push_back(stride);
  }
  dims.push_back(is_x ? shape.size.m : shape.size.k);
  dims.push_back(is_x ? shape.size.k : shape.size.n);
  strides.insert(strides.end(), matrix_strides, matrix_strides + 2);
  // oneDNN asks for plausible strides of axes of size 1, too.
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1)
      strides[axis] = axis + 1 < dims.size() ? dims[axis + 1] * strides[axis + 1] : 1;
  }
  return memory::desc(dims, request.dtype, strides);
}

memory::desc Result(const ProductRequest& request) {
  memory::dims dims;
  for (const StackAxis& axis : request.shape.stack) dims.push_back(axis.size);
  dims.push_back(request.shape.size.m);
  dims.push_back(request.shape.size.n);
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0; stride *= dims[axis]) strides[axis] = stride;
  return memory::desc(dims, request.dtype, strides);
}

// One number for each column: [1, ..., n].
memory::desc Bias(const ProductRequest& request) {
  const size_t outer = request.shape.stack.size() + 1;
  memory::dims dims(outer, 1);
  memory::dims strides(outer, request.shape.size.n);
  dims.push_back(request.shape.size.n);
  strides.push_back(1);
  return memory::desc(dims, request.dtype, strides);
}

dnnl::matmul::primitive_desc Describe(const ProductRequest& request, const memory::desc& y) {
  dnnl::primitive_attr attr = UserScratchpad();
  dnnl::post_ops post_ops;
  AppendActivation(request.activation, &post_ops);
  attr.set_post_ops(post_ops);
  const memory::desc x = Factor(request, true);
  const memory::desc out = Result(request);
  constexpr bool allow_empty = true;
  if (request.with_bias) {
    return dnnl::matmul::primitive_desc(CpuEngine(), x, y, Bias(request), out, attr, allow_empty);
  }
  return dnnl::matmul::primitive_desc(CpuEngine(), x, y, out, attr, allow_empty);
}

}  // namespace

opwright::Status Product::Make(const ProductRequest& request) {
  const ThreadCount count(request.n_threads);
  y_plain_ = Factor(request, false);
  memory::desc y = y_plain_;
  if (request.pack_y) y = memory::desc(y.get_dims(), request.dtype, memory::format_tag::any);
  const dnnl::matmul::primitive_desc description = Describe(request, y);
  if (!description.get(true)) {
    return opwright::Status::Refused("oneDNN has no product of this dtype for this machine");
  }
  primitive_ = Primitive(description);
  y_used_ = description.weights_desc();
  packed_bytes_ = y_used_ == y_plain_ ? 0 : y_used_.get_size();
  with_bias_ = request.with_bias;
  primitive_.Add(DNNL_ARG_SRC, description.src_desc());
  primitive_.Add(DNNL_ARG_WEIGHTS, y_used_);
  primitive_.Add(DNNL_ARG_DST, description.dst_desc());
  if (with_bias_) primitive_.Add(DNNL_ARG_BIAS, description.bias_desc());
  return opwright::Status::Ok();
}

}  // namespace opwright_cpu
