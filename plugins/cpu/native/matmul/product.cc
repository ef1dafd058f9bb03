#include "matmul/product.h"

#include <algorithm>
#include <utility>

#include "common/parallel.h"

namespace opwright_cpu {
namespace {

using dnnl::memory;

memory::desc FactorDesc(const MatrixShape& shape, memory::data_type dtype, bool is_x) {
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
  // oneDNN requires consistent strides even for axes of size 1.
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1)
      strides[axis] = axis + 1 < dims.size() ? dims[axis + 1] * strides[axis + 1] : 1;
  }
  return memory::desc(dims, dtype, strides);
}

memory::desc Result(const MatrixPart& part, memory::data_type dtype) {
  memory::dims dims, strides = part.out_strides;
  for (const StackAxis& axis : part.shape.stack) dims.push_back(axis.size);
  dims.push_back(part.shape.size.m);
  dims.push_back(part.shape.size.n);
  strides.push_back(1);
  return memory::desc(dims, dtype, strides);
}

// Returns the descriptor of an array with one value per column, [1, ..., n].
memory::desc Bias(const MatrixShape& shape, memory::data_type dtype) {
  const size_t outer = shape.stack.size() + 1;
  memory::dims dims(outer, 1);
  memory::dims strides(outer, shape.size.n);
  dims.push_back(shape.size.n);
  strides.push_back(1);
  return memory::desc(dims, dtype, strides);
}

dnnl::matmul::primitive_desc Describe(const ProductRequest& request, const MatrixPart& part,
                                      const memory::desc& y) {
  dnnl::primitive_attr attr = UserScratchpad();
  dnnl::post_ops post_ops;
  if (request.activation != nullptr) AppendEltwise(*request.activation, &post_ops);
  attr.set_post_ops(post_ops);
  const memory::desc x = FactorDesc(part.shape, request.dtype, true);
  const memory::desc out = Result(part, request.out_dtype);
  constexpr bool allow_empty = true;
  if (request.with_bias) {
    return dnnl::matmul::primitive_desc(CpuEngine(), x, y, Bias(part.shape, request.out_dtype), out,
                                        attr, allow_empty);
  }
  return dnnl::matmul::primitive_desc(CpuEngine(), x, y, out, attr, allow_empty);
}

// Returns whether two parts of a product have the same sizes; their strides are always equal.
bool AreAlike(const MatrixShape& one, const MatrixShape& other) {
  return one.size.m == other.size.m && one.size.n == other.size.n &&
         std::equal(one.stack.begin(), one.stack.end(), other.stack.begin(), other.stack.end(),
                    [](const StackAxis& a, const StackAxis& b) { return a.size == b.size; });
}

// Minimum number of multiplications per part; with less work, another thread does not pay off.
constexpr int64_t kPartGrain = 64 * 1024;

}  // namespace

opwright::Status Product::Make(const ProductRequest& request) {
  const int64_t most = std::max<int64_t>(1, request.shape.Multiplications() / kPartGrain);
  const auto n_parts = static_cast<int32_t>(std::min<int64_t>(request.n_threads, most));
  with_bias_ = request.with_bias;
  const ThreadCount one_each(1);
  for (const MatrixPart& part : SplitProduct(request.shape, n_parts)) {
    OPWRIGHT_RETURN_IF_ERROR(AddPart(request, part));
  }
  if (request.pack_y) LayPackedParts();
  return opwright::Status::Ok();
}

opwright::Status Product::AddPart(const ProductRequest& request, const MatrixPart& from) {
  const auto item = static_cast<int64_t>(memory::data_type_size(request.dtype));
  const auto out_item = static_cast<int64_t>(memory::data_type_size(request.out_dtype));
  Part part;
  const auto like = std::find_if(parts_.begin(), parts_.end(), [&](const Part& other) {
    return AreAlike(other.shape, from.shape);
  });
  if (like != parts_.end()) part = *like;  // a new primitive would recompile the same code
  part.x = from.x * item;
  part.y = from.y * item;
  part.bias = from.column * out_item;
  part.out = from.out * out_item;
  if (like != parts_.end()) {
    parts_.push_back(std::move(part));
    return opwright::Status::Ok();
  }
  part.shape = from.shape;
  part.y_plain = FactorDesc(from.shape, request.dtype, false);
  memory::desc y = part.y_plain;
  if (request.pack_y) {
    const bool is_read_already = !parts_.empty() && parts_.back().y == part.y;
    y = is_read_already ? parts_.back().y_used
                        : memory::desc(y.get_dims(), request.dtype, memory::format_tag::any);
  }
  const dnnl::matmul::primitive_desc description = Describe(request, from, y);
  if (!description.get(true)) {
    return opwright::Status::Unsupported("oneDNN has no product of this dtype for it");
  }
  part.primitive = Primitive(description);
  part.y_used = description.weights_desc();
  part.primitive.Add(DNNL_ARG_SRC, description.src_desc());
  part.primitive.Add(DNNL_ARG_WEIGHTS, part.y_used);
  part.primitive.Add(DNNL_ARG_DST, description.dst_desc());
  if (with_bias_) part.primitive.Add(DNNL_ARG_BIAS, description.bias_desc());
  scratchpad_bytes_ = std::max(scratchpad_bytes_, WholeLines(part.primitive.scratchpad_bytes()));
  parts_.push_back(std::move(part));
  return opwright::Status::Ok();
}

// Parts that begin at the same element of y share one packed copy.
void Product::LayPackedParts() {
  const bool is_plain = std::all_of(parts_.begin(), parts_.end(),
                                    [](const Part& part) { return part.y_used == part.y_plain; });
  if (is_plain) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0 && parts_[i].y == parts_[i - 1].y) {
      parts_[i].packed = parts_[i - 1].packed;
    } else {
      parts_[i].packed = static_cast<int64_t>(packed_bytes_);
      packed_bytes_ += WholeLines(parts_[i].y_used.get_size());
    }
  }
}

void Product::Pack(const void* y, void* packed) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (i > 0 && part.packed == parts_[i - 1].packed) continue;
    Reorder(part.y_plain, At(y, part.y), part.y_used, At(packed, part.packed));
  }
}

void ProductExecution::Bind(const Product& product) {
  product_ = &product;
  executions_.resize(product.parts_.size());
  for (size_t i = 0; i < executions_.size(); ++i) executions_[i].Bind(product.parts_[i].primitive);
}

void ProductExecution::Run(char* workspace, const void* x, const void* y, const void* bias,
                           void* out) {
  const auto n_parts = static_cast<int32_t>(executions_.size());
  opwright::Parallel(n_parts, n_parts, [&](int32_t i) {
    const Product::Part& part = product_->parts_[static_cast<size_t>(i)];
    Execution& execution = executions_[static_cast<size_t>(i)];
    const void* factor = At(y, product_->packed_bytes_ > 0 ? part.packed : part.y);
    char* scratchpad = workspace + product_->scratchpad_bytes_ * static_cast<uint64_t>(i);
    if (product_->with_bias_) {
      execution.Run(1, scratchpad, At(x, part.x), factor, At(out, part.out), At(bias, part.bias));
    } else {
      execution.Run(1, scratchpad, At(x, part.x), factor, At(out, part.out));
    }
  });
}

}  // namespace opwright_cpu
