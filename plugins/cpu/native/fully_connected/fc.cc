// Fully connected layers of all sizes. oneDNN computes the product with bias and activation fused,
// or our own loops compute it, followed by one sweep over the rows.
#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include <opwright/functors.h>

#include "common/activation.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "fully_connected/attributes.h"
#include "matmul/matrix_shape.h"
#include "matmul/own_product.h"
#include "matmul/panel_product.h"
#include "matmul/product.h"
#include "onednn/activation.h"
#include "onednn/dtypes.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <typename T>
OPWRIGHT_CPU_INLINE void AddBias(int64_t n, const T* bias, T* row) {
  if (bias == nullptr) return;
  for (int64_t j = 0; j < n; ++j) row[j] += bias[j];
}

template <typename T>
OPWRIGHT_CPU_CLONES void FinishRelu(int64_t n, const T* bias, T* row) {
  AddBias(n, bias, row);
  for (int64_t j = 0; j < n; ++j) row[j] = row[j] < T(0) ? T(0) : row[j];  // NaN stays NaN
}

// Replaces oneDNN's relu, which turns NaN into 0. Negative numbers have the sign bit set, and NaN
// has the greatest magnitudes.
OPWRIGHT_CPU_CLONES void ReluOfBits(int64_t n, uint16_t* bits) {
  constexpr uint16_t kInfinity = 0x7f80, kSign = 0x8000;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_negative = bits[i] > kSign && bits[i] <= (kSign | kInfinity);
    bits[i] = is_negative ? uint16_t{0} : bits[i];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void FinishSigmoid(int64_t n, const T* bias, T* row) {
  AddBias(n, bias, row);
  for (int64_t j = 0; j < n; ++j) row[j] = functors::Sigmoid(row[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void FinishTanh(int64_t n, const T* bias, T* row) {
  AddBias(n, bias, row);
  for (int64_t j = 0; j < n; ++j) row[j] = functors::Tanh(row[j]);
}

// Subtracts the greatest element first so that no exponential overflows.
template <typename T>
OPWRIGHT_CPU_CLONES void FinishSoftmax(int64_t n, const T* bias, T* row) {
  AddBias(n, bias, row);
  T greatest = -std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < n; ++j) greatest = row[j] > greatest ? row[j] : greatest;
  T sum = 0;
  for (int64_t j = 0; j < n; ++j) row[j] = functors::Exp(row[j] - greatest);
  for (int64_t j = 0; j < n; ++j) sum += row[j];
  for (int64_t j = 0; j < n; ++j) row[j] /= sum;
}

template <typename T>
OPWRIGHT_CPU_CLONES void FinishPlain(int64_t n, const T* bias, T* row) {
  AddBias(n, bias, row);
}

template <typename T>
using FinishFn = void (*)(int64_t, const T*, T*);

template <typename T>
FinishFn<T> FinishOf(Activation activation) {
  static constexpr FinishFn<T> kFunctions[] = {FinishPlain<T>, FinishRelu<T>, FinishSigmoid<T>,
                                               FinishTanh<T>, FinishSoftmax<T>};
  return kFunctions[static_cast<int>(activation)];
}

// Applies bias and activation to rows while they are in the cache of the thread that computed them.
template <typename T>
void Finish(Activation activation, int64_t rows, int64_t n, const T* bias, T* out,
            int32_t n_threads) {
  if (n == 0 || (bias == nullptr && activation == Activation::kNone)) return;
  const FinishFn<T> function = FinishOf<T>(activation);
  ParallelFor(n_threads, rows, std::max<int64_t>(1, kElementGrain / 4 / n), 1,
              [=](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) function(n, bias, out + i * n);
              });
}

template <typename T>
struct FcKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // the size of a part determines the algorithm
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const FcAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(
        PrepareWithMemory(this, [&](FcKernel* made) { return made->Make(ctx, attrs); }));
    const uint64_t packed_bytes =
        panels_.empty() ? product_.packed_bytes() : panels_.packed_bytes();
    if (packed_bytes == 0) return opwright::Status::Ok();
    return ctx.Pack(1, packed_bytes);
  }

  struct Bound {
    ProductExecution execution;
  };
  opwright::Status Bind(const opwright::RunContext&, const FcAttrs&, Bound& bound) const {
    bound.execution.Bind(product_);
    return opwright::Status::Ok();
  }

  opwright::Status Pack(const opwright::RunContext&, uint32_t, const opwright::InputTensor& weight,
                        void* packed) const {
    if (panels_.empty()) {
      product_.Pack(weight.raw(), packed);
    } else {
      panels_.Pack(static_cast<const float*>(weight.raw()), packed);
    }
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const FcAttrs&, Bound& bound) const {
    const T* x = ctx.input(0).data<T>();
    const T* weight = ctx.input(1).data<T>();
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    if constexpr (std::is_same_v<T, float>) {
      if (!panels_.empty()) {
        RunPanels(ctx, bias);
        return opwright::Status::Ok();
      }
    }
    if (!product_.empty()) {
      bound.execution.Run(ctx.workspace<char>(), x, weight, bias, out);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (!product_.empty()) {
        if (activation_ == Activation::kSoftmax) {
          Finish<T>(activation_, rows_, columns_, nullptr, out, ctx.n_threads());
        }
        return opwright::Status::Ok();
      }
      if (shape_.Multiplications() == 0) {
        std::fill(out, out + rows_ * columns_, T(0));  // empty sums are 0
      } else {
        own_.template Run<T>(x, weight, out, ctx.workspace<char>());
      }
      Finish<T>(activation_, rows_, columns_, bias, out, ctx.n_threads());
    } else if (activation_ == Activation::kRelu) {
      auto* bits = reinterpret_cast<uint16_t*>(out);
      ParallelFor(ctx.n_threads(), rows_ * columns_, kElementGrain, 1,
                  [=](int64_t begin, int64_t end) { ReluOfBits(end - begin, bits + begin); });
    }
    return opwright::Status::Ok();
  }

 private:
  opwright::Status Make(opwright::PrepareContext& ctx, const FcAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(ParseActivation(attrs.activation, &activation_));
    const opwright::Meta weight = ctx.input(1);
    const bool turned = attrs.transpose_weight;
    columns_ = weight.dim(turned ? 0 : 1);
    rows_ = columns_ == 0 ? 0 : ctx.output(0).numel() / columns_;
    const int64_t inputs = weight.dim(turned ? 1 : 0);
    shape_ = MakeMatrixShape({rows_, inputs}, {weight.dim(0), weight.dim(1)}, false, turned);
    ctx.SetEstimate(EstimateProductNs<T>(shape_, ctx.n_threads()));
    constexpr bool is_float = std::is_floating_point_v<T>;
    if (is_float && shape_.Multiplications() == 0) return opwright::Status::Ok();
    if (std::is_same_v<T, float> && ctx.packable(1) && columns_ > 1 && !IsSmall(shape_)) {
      panels_.Make(shape_, ctx.n_threads());
      if (!panels_.empty()) return opwright::Status::Ok();
    }
    if constexpr (kIsOneDnnType<T>) {
      if (!is_float || !IsOwn(shape_)) return PrepareOneDnn(ctx, attrs);
    }
    if constexpr (is_float) {
      own_.template Make<T>(shape_, ctx.n_threads());
      ctx.SetWorkspace(own_.workspace_bytes());
    }
    return opwright::Status::Ok();
  }

  void RunPanels(const opwright::RunContext& ctx, const float* bias) const {
    float* out = ctx.output(0).data<float>();
    const bool is_softmax = activation_ == Activation::kSoftmax;  // needs complete rows
    const auto finish = FinishOf<float>(is_softmax ? Activation::kNone : activation_);
    panels_.Run(ctx.input(0).data<float>(), ctx.input(1).raw(), out,
                [=](int64_t row, int64_t column, int64_t width) {
                  finish(width, bias == nullptr ? nullptr : bias + column,
                         out + row * columns_ + column);
                });
    if (is_softmax) Finish<float>(activation_, rows_, columns_, nullptr, out, ctx.n_threads());
  }

  opwright::Status PrepareOneDnn(opwright::PrepareContext& ctx, const FcAttrs& attrs) {
    if (!std::is_floating_point_v<T>) {
      if (activation_ == Activation::kSoftmax) {
        return opwright::Status::Refused("does not support softmax in bfloat16");
      }
      if (shape_.Multiplications() == 0) {
        return opwright::Status::Refused("does not support empty products in bfloat16");
      }
    }
    ProductRequest request;
    request.shape = shape_;
    request.dtype = request.out_dtype = OneDnnType<T>();
    request.with_bias = ctx.has_input(2);
    const bool is_bits = !std::is_floating_point_v<T> && activation_ == Activation::kRelu;
    request.activation = is_bits ? nullptr : FindEltwise(attrs.activation);
    request.pack_y = ctx.packable(1);
    request.n_threads = ctx.n_threads();
    OPWRIGHT_RETURN_IF_ERROR(product_.Make(request));
    ctx.SetWorkspace(product_.workspace_bytes());
    return opwright::Status::Ok();
  }

  Activation activation_ = Activation::kNone;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  MatrixShape shape_;
  PanelProduct panels_;
  OwnProduct own_;
  Product product_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("fc", "cpu", opwright_cpu::FcKernel, float, double,
                             opwright::BFloat16);
OPWRIGHT_CPU_REGISTER_WIDENED("fc", opwright_cpu::FcKernel);
