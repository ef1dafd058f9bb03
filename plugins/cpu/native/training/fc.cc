// Fully connected layers of the sizes that are trained in one cache: out = activation(x w + b).
#include <vector>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "gemm/vector_products.h"
#include "training/activation.h"
#include "training/attributes.h"
#include "training/partition.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

template <typename T>
struct FcKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.priority = 60;
    options.by_threads = true;  // each thread's product is a share of the sums
  }

  Status Prepare(opwright::PrepareContext& ctx, const FcAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(ParseActivation(attrs.activation, &activation_));
    const opwright::Meta weight = ctx.input(1);
    k_ = weight.dim(0);
    n_ = weight.dim(1);
    m_ = n_ == 0 ? 0 : ctx.output(0).numel() / n_;
    if (k_ * n_ > kMostWeights || m_ > kMostRows) {
      return Status::Refused("is for at most ", kMostRows, " rows and ", kMostWeights,
                             " weights, got ", m_, " and ", k_ * n_);
    }
    if (sizeof(T) == sizeof(float) && ctx.packable(1) && k_ * n_ >= kLeastPacked) {
      return Status::Refused("is for weights that change or have less than ", kLeastPacked,
                             " numbers, got ", k_ * n_);
    }
    threads_ = ThreadsFor(m_, n_, k_, ctx.n_threads());
    gemm_ = BestGemm<T>();
    const int64_t own = threads_ > 1 ? m_ * n_ : 0;
    ctx.SetWorkspace(static_cast<uint64_t>((own + kGemmScratch) * threads_) * sizeof(T));
    ctx.SetEstimate(EstimateProduct(m_, n_, k_, sizeof(T), threads_) +
                    static_cast<uint64_t>(m_ * n_ / threads_));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const FcAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* w = ctx.input(1).data<T>();
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    T* workspace = ctx.workspace<T>();
    if (m_ * n_ == 0) return Status::Ok();
    if (threads_ == 1) {
      Multiply(x, w, 0, k_, workspace, out);
      FinishRows(activation_, out, 1, 0, bias, m_, n_, out);
      return Status::Ok();
    }
    T* parts = workspace + kGemmScratch * threads_;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part rows = OwnedRows(k_, thread, n_threads);
      Multiply(x, w, rows.begin, rows.end, workspace + kGemmScratch * thread,
               parts + m_ * n_ * thread);
    });
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part batch = PartOf(m_, 1, thread, n_threads);
      FinishRows(activation_, parts + batch.begin * n_, n_threads, m_ * n_, bias,
                 batch.end - batch.begin, n_, out + batch.begin * n_);
    });
    return Status::Ok();
  }

 private:
  // The share of weight rows [begin, end) in x w.
  void Multiply(const T* x, const T* w, int64_t begin, int64_t end, T* scratch, T* out) const {
    if (m_ <= kFewRows) {
      for (int64_t i = 0; i < m_; ++i) {
        VectorTimesMatrix(x + i * k_ + begin, w + begin * n_, n_, end - begin, n_, out + i * n_);
      }
      return;
    }
    GemmCall<T> call{};
    call.m = m_;
    call.n = n_;
    call.k = end - begin;
    call.a = x + begin;
    call.a_row = k_;
    call.a_col = 1;
    call.b = w + begin * n_;
    call.b_row = n_;
    call.b_col = 1;
    call.c = out;
    call.ldc = n_;
    call.alpha = T(1);
    call.scratch = scratch;
    gemm_(call);
  }

  Activation activation_ = Activation::kNone;
  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int32_t threads_ = 1;
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("fc", "cpu", opwright_cpu::FcKernel, float, double);
