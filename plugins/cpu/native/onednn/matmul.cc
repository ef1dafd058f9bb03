// Matrix products: large float32 ones and bfloat16 through oneDNN, the others by our own loops.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/parallel.h"
#include "onednn/dtypes.h"
#include "onednn/gemm.h"
#include "onednn/matrix_shape.h"
#include "onednn/ops.h"
#include "onednn/product.h"

namespace opwright_cpu {
namespace {

// Below so many multiplications oneDNN's call costs more than our simpler loop; measured.
constexpr int64_t kSmallProduct = 16 * 1024;
// Multiplications that a second thread needs to be worth waking it.
constexpr int64_t kProductGrain = 64 * 1024;

// One product by our own loops: matrices of the stack, each in pieces of rows or columns.
class OwnProduct {
 public:
  template <typename T>
  void Make(const MatrixShape& shape, int32_t n_threads) {
    shape_ = shape;
    const GemmSize& size = shape.size;
    const int64_t most = std::max<int64_t>(1, shape.Multiplications() / kProductGrain);
    n_threads_ = static_cast<int32_t>(std::min<int64_t>(n_threads, most));
    by_rows_ = size.m >= size.n;
    const int64_t length = by_rows_ ? size.m : size.n;
    const bool splits = n_threads_ > 1 && shape.stack_size < 2 * n_threads_;
    pieces_ = splits ? std::min<int64_t>(n_threads_, (length + kStep - 1) / kStep) : 1;
    thread_bytes_ = std::is_floating_point_v<T> ? GemmWorkspaceBytes(size, sizeof(T)) : 0;
  }

  uint64_t workspace_bytes() const { return thread_bytes_ * static_cast<uint64_t>(n_threads_); }

  template <typename T>
  void Run(const T* x, const T* y, T* out, char* workspace) const {
    Parallel(n_threads_, [=](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.stack_size * pieces_, 1, thread, n_threads);
      char* own = workspace + thread_bytes_ * static_cast<uint64_t>(thread);
      for (int64_t unit = part.begin; unit < part.end; ++unit) RunPiece<T>(unit, x, y, out, own);
    });
  }

 private:
  static constexpr int64_t kStep = 32;  // whole tiles

  template <typename T>
  void RunPiece(int64_t unit, const T* x, const T* y, T* out, void* workspace) const {
    const auto piece = static_cast<int32_t>(unit % pieces_);
    const int64_t index = unit / pieces_;
    const MatrixShape::Offsets at = shape_.At(index);
    GemmSize size = shape_.size;
    MatrixView<const T> a{x + at.x, shape_.x_strides[0], shape_.x_strides[1]};
    MatrixView<const T> b{y + at.y, shape_.y_strides[0], shape_.y_strides[1]};
    MatrixView<T> c{out + index * size.m * size.n, size.n, 1};
    int64_t& length = by_rows_ ? size.m : size.n;
    const Part part = PartOf(length, kStep, piece, static_cast<int32_t>(pieces_));
    length = part.end - part.begin;
    if (by_rows_) {
      a = a.At(part.begin, 0);
      c = c.At(part.begin, 0);
    } else {
      b = b.At(0, part.begin);
      c = c.At(0, part.begin);
    }
    if (length > 0) Gemm<T>(size, a, b, c, workspace);
  }

  MatrixShape shape_;
  uint64_t thread_bytes_ = 0;
  int64_t pieces_ = 1;
  int32_t n_threads_ = 1;
  bool by_rows_ = true;
};

template <typename T>
struct MatmulKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const MatmulAttrs& attrs) {
    const MatrixShape shape =
        MakeMatrixShape(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), attrs.transpose_x,
                        attrs.transpose_y);
    out_bytes_ = static_cast<size_t>(ctx.output(0).numel()) * sizeof(T);
    is_zero_ = shape.Multiplications() == 0;  // nothing to do, or sums of nothing
    if (is_zero_) return opwright::Status::Ok();
    ctx.SetEstimate(EstimateNs(shape, ctx.n_threads()));
    if constexpr (kIsOneDnnType<T>) {
      if (!std::is_same_v<T, float> || !IsOurs(shape)) return PrepareOneDnn(ctx, shape);
    }
    if constexpr (!std::is_same_v<T, opwright::BFloat16>) {
      own_.template Make<T>(shape, ctx.n_threads());
      ctx.SetWorkspace(own_.workspace_bytes());
    }
    return opwright::Status::Ok();
  }

  struct Bound {
    Execution execution;
  };
  opwright::Status Bind(const opwright::RunContext&, const MatmulAttrs&, Bound& bound) const {
    if (product_.primitive()) bound.execution.Bind(product_.primitive());
    return opwright::Status::Ok();
  }

  opwright::Status Pack(const opwright::RunContext& ctx, uint32_t, const opwright::InputTensor& y,
                        void* packed) const {
    product_.Pack(y.raw(), packed, ctx.n_threads());
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const MatmulAttrs&, Bound& bound) const {
    if (is_zero_) {
      if (out_bytes_ > 0) std::memset(ctx.output(0).raw(), 0, out_bytes_);
      return opwright::Status::Ok();
    }
    const T* x = ctx.input(0).data<T>();
    const T* y = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    if (product_.primitive()) {
      product_.Run(bound.execution, ctx.n_threads(), ctx.workspace(), x, y, nullptr, out);
      return opwright::Status::Ok();
    }
    if constexpr (!std::is_same_v<T, opwright::BFloat16>) {
      own_.template Run<T>(x, y, out, ctx.workspace<char>());
    }
    return opwright::Status::Ok();
  }

 private:
  opwright::Status PrepareOneDnn(opwright::PrepareContext& ctx, const MatrixShape& shape) {
    ProductRequest request;
    request.shape = shape;
    request.dtype = OneDnnType<T>();
    request.pack_y = ctx.packable(1) && shape.stack.empty();
    request.n_threads = ctx.n_threads();
    OPWRIGHT_RETURN_IF_ERROR(product_.Make(request));
    ctx.SetWorkspace(product_.primitive().scratchpad_bytes());
    if (product_.packed_bytes() == 0) return opwright::Status::Ok();
    return ctx.Pack(1, product_.packed_bytes());
  }

  // A vector with the rows of a matrix is bound by memory, which plain sums of products reach.
  static bool IsOurs(const MatrixShape& shape) {
    const bool dots = (shape.size.m == 1 && shape.y_strides[0] == 1) ||
                      (shape.size.n == 1 && shape.x_strides[1] == 1);
    return dots || shape.Multiplications() <= kSmallProduct;
  }

  // Float32 runs at about 64 multiplications a nanosecond and thread where vectors are long.
  static uint64_t EstimateNs(const MatrixShape& shape, int32_t n_threads) {
    const double rate = std::is_floating_point_v<T> ? 256.0 / sizeof(T) : 4.0;
    return 50 +
           static_cast<uint64_t>(static_cast<double>(shape.Multiplications()) / rate / n_threads);
  }

  size_t out_bytes_ = 0;
  bool is_zero_ = false;
  OwnProduct own_;
  Product product_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL(matmul, "cpu", opwright_cpu::MatmulKernel, float, double,
                         opwright::BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                         uint32_t, uint64_t);
