// Matrix products. Large float32 products and bfloat16 products run through oneDNN, all other
// products in our own loops. The fused operator reads transposed factors and writes a transposed
// product, so the transposes around it are not needed.
#include <cstring>
#include <type_traits>

#include "common/widened.h"
#include "matmul/attributes.h"
#include "matmul/matrix_shape.h"
#include "matmul/own_product.h"
#include "matmul/product.h"
#include "onednn/dtypes.h"

namespace opwright_cpu {
namespace {

bool HasAvx512() {
  constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  static const bool has_it =
      (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kAvx512) == kAvx512;
  return has_it;
}

// Returns whether sums are so short that writing them dominates, and columns are few or rows are at
// power-of-two distances. Without AVX-512, oneDNN's loops then take 1.2 to 1.9 times as long.
bool IsShortSum(const GemmSize& size) {
  constexpr int64_t kShortSum = 64, kFewColumns = 16, kAliasedColumns = 256;
  return size.k <= kShortSum && (size.n <= kFewColumns || size.n % kAliasedColumns == 0);
}

// Returns whether the output matrices are interleaved along a single batch axis, like the heads
// after an attention. oneDNN's newer loops do not support this layout without another axis.
// oneDNN's older loops are as fast as ours, but take 30 ms to compile once in each process.
bool AreInterleaved(const MatrixShape& shape) {
  return shape.stack.size() == 1 && shape.out_row != shape.size.n;
}

bool IsOwnProduct(const MatrixShape& shape) {
  if (IsOwn(shape)) return true;
  if (!HasAvx512()) return IsShortSum(shape.size);
  return IsTurned(shape) || AreInterleaved(shape);
}

MatrixShape ShapeOf(const opwright::PrepareContext& ctx, const MatmulAttrs& attrs) {
  return MakeMatrixShape(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                         attrs.transpose_x, attrs.transpose_y);
}

MatrixShape ShapeOf(const opwright::PrepareContext& ctx, const FoldedMatmulAttrs& attrs) {
  return MakeMatrixShape(LaidBy(ctx.input(0).shape().dims(), attrs.x_axes),
                         LaidBy(ctx.input(1).shape().dims(), attrs.y_axes), attrs.out_axes);
}

template <typename T, typename Attrs>
struct ProductKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = !std::is_integral_v<T>;  // the size of a part determines the algorithm
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(
        PrepareWithMemory(this, [&](ProductKernel* made) { return made->Make(ctx, attrs); }));
    if (product_.packed_bytes() == 0) return opwright::Status::Ok();
    return ctx.Pack(1, product_.packed_bytes());
  }

  struct Bound {
    ProductExecution execution;
  };
  opwright::Status Bind(const opwright::RunContext&, const Attrs&, Bound& bound) const {
    bound.execution.Bind(product_);
    return opwright::Status::Ok();
  }

  opwright::Status Pack(const opwright::RunContext&, uint32_t, const opwright::InputTensor& y,
                        void* packed) const {
    product_.Pack(y.raw(), packed);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&, Bound& bound) const {
    if (is_zero_) {
      if (out_bytes_ > 0) std::memset(ctx.output(0).raw(), 0, out_bytes_);
      return opwright::Status::Ok();
    }
    const T* x = ctx.input(0).data<T>();
    const T* y = ctx.input(1).data<T>();
    if (!product_.empty()) {
      bound.execution.Run(ctx.workspace<char>(), x, y, nullptr, ctx.output(0).raw());
      return opwright::Status::Ok();
    }
    if constexpr (!std::is_same_v<T, opwright::BFloat16>) {
      own_.template Run<T>(x, y, ctx.output(0).data<T>(), ctx.workspace<char>());
    }
    return opwright::Status::Ok();
  }

 private:
  opwright::Status Make(opwright::PrepareContext& ctx, const Attrs& attrs) {
    const MatrixShape shape = ShapeOf(ctx, attrs);
    is_widened_ = !opwright::SameDtype(ctx.output(0).dtype(), opwright::DtypeOf<T>());
    out_bytes_ = static_cast<size_t>(ctx.output(0).numel()) * (is_widened_ ? 4 : sizeof(T));
    is_zero_ = shape.Multiplications() == 0;  // the output is empty or consists of empty sums
    if (is_zero_) return opwright::Status::Ok();
    ctx.SetEstimate(EstimateProductNs<T>(shape, ctx.n_threads()));
    if constexpr (kIsOneDnnType<T>) {
      if (!std::is_same_v<T, float> || !IsOwnProduct(shape)) return PrepareOneDnn(ctx, shape);
    }
    if constexpr (!std::is_same_v<T, opwright::BFloat16>) {
      own_.template Make<T>(shape, ctx.n_threads());
      ctx.SetWorkspace(own_.workspace_bytes());
    }
    return opwright::Status::Ok();
  }

  opwright::Status PrepareOneDnn(opwright::PrepareContext& ctx, const MatrixShape& shape) {
    ProductRequest request;
    request.shape = shape;
    request.dtype = OneDnnType<T>();
    request.out_dtype = is_widened_ ? dnnl::memory::data_type::f32 : request.dtype;
    request.pack_y = ctx.packable(1) && shape.stack.empty();
    request.n_threads = ctx.n_threads();
    OPWRIGHT_RETURN_IF_ERROR(product_.Make(request));
    ctx.SetWorkspace(product_.workspace_bytes());
    return opwright::Status::Ok();
  }

  size_t out_bytes_ = 0;
  bool is_zero_ = false;
  bool is_widened_ = false;  // bfloat16 factors have a float32 product
  OwnProduct own_;
  Product product_;
};

template <typename T>
using MatmulKernel = ProductKernel<T, MatmulAttrs>;

template <typename T>
using FoldedMatmulKernel = ProductKernel<T, FoldedMatmulAttrs>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("matmul", "cpu", opwright_cpu::MatmulKernel, float, double,
                             opwright::BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                             uint16_t, uint32_t, uint64_t);
OPWRIGHT_CPU_REGISTER_WIDENED("matmul", opwright_cpu::MatmulKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("cpu.folded_matmul", "cpu", opwright_cpu::FoldedMatmulKernel, float,
                             double, opwright::BFloat16);
