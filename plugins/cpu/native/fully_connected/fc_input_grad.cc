// Computes, in one pass, the input gradient of a fully connected layer times the derivative of the
// preceding activation, and its column sums, which are the bias gradient of the preceding layer.
#include <algorithm>

#include "common/parallel.h"
#include "fully_connected/activation.h"
#include "fully_connected/attributes.h"
#include "fully_connected/partition.h"
#include "gemm/gemm.h"
#include "gemm/vector_products.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

template <typename T>
struct FcInputGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  Status Prepare(opwright::PrepareContext& ctx, const FcInputGradAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(ParseActivation(attrs.activation, &activation_));
    OPWRIGHT_ENFORCE(activation_ != Activation::kSoftmax, "softmax has no derivative by element");
    const opwright::Meta weight = ctx.input(1);
    is_turned_ = attrs.transpose_weight;
    k_ = weight.dim(is_turned_ ? 1 : 0);
    n_ = weight.dim(is_turned_ ? 0 : 1);
    m_ = ctx.input(0).dim(0);
    threads_ = is_turned_ ? ThreadsFor(m_, k_, n_, ctx.n_threads())
                          : ThreadsFor(m_, n_, k_, ctx.n_threads());
    gemm_ = BestGemm<T>();
    const int64_t own = threads_ > 1 && is_turned_ ? m_ * k_ : 0;
    ctx.SetWorkspace(static_cast<uint64_t>((own + kGemmScratch) * threads_) * sizeof(T));
    ctx.SetEstimate(EstimateProduct(m_, n_, k_, sizeof(T), threads_) +
                    static_cast<uint64_t>(m_ * k_ / (4 * threads_)));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const FcInputGradAttrs&) const {
    const T* grad = ctx.input(0).data<T>();
    const T* w = ctx.input(1).data<T>();
    const T* activated = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* x_grad = ctx.output(0).data<T>();
    T* bias_grad = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    T* workspace = ctx.workspace<T>();
    if (is_turned_) {
      RunTurned(grad, w, activated, workspace, x_grad, bias_grad);
      return Status::Ok();
    }
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part rows = OwnedRows(k_, thread, n_threads);
      const int64_t count = rows.end - rows.begin;
      if (count <= 0) return;
      T* to = x_grad + rows.begin;
      Multiply(grad, w + rows.begin * n_, count, workspace + kGemmScratch * thread, to);
      MultiplyByDerivative(activation_, activated == nullptr ? nullptr : activated + rows.begin, to,
                           m_, count, k_, bias_grad == nullptr ? nullptr : bias_grad + rows.begin);
    });
    return Status::Ok();
  }

 private:
  // Each thread multiplies by its own rows of a weight [outputs, inputs]. The partial sums of all
  // threads are then accumulated column by column.
  void RunTurned(const T* grad, const T* w, const T* activated, T* workspace, T* x_grad,
                 T* bias_grad) const {
    T* parts = threads_ > 1 ? workspace + kGemmScratch * threads_ : x_grad;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part rows = OwnedRows(n_, thread, n_threads);
      MultiplyTurned(grad + rows.begin, w + rows.begin * k_, rows.end - rows.begin,
                     workspace + kGemmScratch * thread, parts + m_ * k_ * thread);
    });
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part columns = PartOf(k_, kOwnedRows, thread, n_threads);
      const int64_t first = columns.begin, count = columns.end - columns.begin;
      if (count <= 0) return;
      for (int64_t i = 0; threads_ > 1 && i < m_; ++i) {
        FinishRows<T>(Activation::kNone, parts + i * k_ + first, n_threads, m_ * k_, nullptr, 1,
                      count, x_grad + i * k_ + first);
      }
      MultiplyByDerivative(activation_, activated == nullptr ? nullptr : activated + first,
                           x_grad + first, m_, count, k_,
                           bias_grad == nullptr ? nullptr : bias_grad + first);
    });
  }

  void MultiplyTurned(const T* grad, const T* w, int64_t count, T* scratch, T* to) const {
    if (count <= 0) {
      std::fill_n(to, m_ * k_, T(0));
      return;
    }
    if (m_ <= kFewRows) {
      for (int64_t i = 0; i < m_; ++i) {
        VectorTimesMatrix(grad + i * n_, w, k_, count, k_, to + i * k_);
      }
      return;
    }
    gemm_({m_, k_, count, grad, n_, 1, w, k_, 1, to, k_, T(1), T(0), scratch});
  }

  void Multiply(const T* grad, const T* w, int64_t count, T* scratch, T* to) const {
    if (m_ <= kFewRows) {
      for (int64_t i = 0; i < m_; ++i) {
        MatrixTimesVector(w, n_, grad + i * n_, count, n_, to + i * k_);
      }
      return;
    }
    GemmCall<T> call{};
    call.m = m_;
    call.n = count;
    call.k = n_;
    call.a = grad;
    call.a_row = n_;
    call.a_col = 1;
    call.b = w;
    call.b_row = 1;
    call.b_col = n_;
    call.c = to;
    call.ldc = k_;
    call.alpha = T(1);
    call.scratch = scratch;
    gemm_(call);
  }

  Activation activation_ = Activation::kNone;
  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int32_t threads_ = 1;
  bool is_turned_ = false;  // the weight is [outputs, inputs]
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.fc_input_grad", "cpu", opwright_cpu::FcInputGradKernel, float,
                             double);
