// Updates a weight and its bias while their gradients are computed, without storing the gradients.
#include <cstring>

#include "common/parallel.h"
#include "fully_connected/attributes.h"
#include "fully_connected/partition.h"
#include "gemm/gemm.h"
#include "gemm/vector_products.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

double ReadRate(const opwright::InputTensor& rate) {
  if (opwright::SameDtype(rate.dtype(), opwright::DtypeOf<double>())) return *rate.data<double>();
  return static_cast<double>(*rate.data<float>());
}

template <typename T>
struct FcSgdKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  Status Prepare(opwright::PrepareContext& ctx, const FcSgdAttrs& attrs) {
    is_turned_ = attrs.transpose_weight;
    k_ = ctx.input(0).dim(0);
    n_ = ctx.input(0).dim(1);
    m_ = ctx.input(1).dim(0);
    threads_ = ThreadsFor(m_, n_, k_, ctx.n_threads());
    gemm_ = BestGemm<T>();
    ctx.SetWorkspace(static_cast<uint64_t>(kGemmScratch * threads_ + outputs()) * sizeof(T));
    ctx.SetEstimate(EstimateProduct(m_, n_, k_, 2 * sizeof(T), threads_) +
                    static_cast<uint64_t>(m_ * n_ / 8));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const FcSgdAttrs& attrs) const {
    const T* x = ctx.input(1).data<T>();
    const T* grad = ctx.input(2).data<T>();
    const double rate = ReadRate(ctx.input(3));
    const T step = static_cast<T>(-rate);
    const T keep = static_cast<T>(1 - rate * attrs.weight_decay);
    T* param = InPlace(ctx.input(0), ctx.output(0));
    T* workspace = ctx.workspace<T>();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part rows = OwnedRows(k_, thread, n_threads);
      // For a param [outputs, inputs], the gradient is grad^T x, so the operands are swapped.
      Update((is_turned_ ? grad : x) + rows.begin, is_turned_ ? x : grad, rows.end - rows.begin,
             step, keep, workspace + kGemmScratch * thread, param + rows.begin * n_);
    });
    if (ctx.has_input(4)) {
      T* sums = workspace + kGemmScratch * threads_;
      UpdateBias(grad, step, keep, sums, InPlace(ctx.input(4), ctx.output(1)));
    }
    return Status::Ok();
  }

 private:
  int64_t outputs() const { return is_turned_ ? k_ : n_; }

  // Returns the output buffer, which then contains the input: if the plan assigned separate
  // buffers, the input is copied.
  static T* InPlace(const opwright::InputTensor& input, const opwright::OutputTensor& output) {
    T* to = output.data<T>();
    const T* from = input.data<T>();
    if (to != from) std::memcpy(to, from, static_cast<size_t>(input.numel()) * sizeof(T));
    return to;
  }

  void Update(const T* x, const T* grad, int64_t rows, T step, T keep, T* scratch, T* param) const {
    if (rows <= 0) return;
    if (m_ == 1) {
      UpdateByOuterProduct(x, grad, rows, n_, step, keep, param);
      return;
    }
    GemmCall<T> call{};
    call.m = rows;
    call.n = n_;
    call.k = m_;
    call.a = x;
    call.a_row = 1;
    call.a_col = k_;
    call.b = grad;
    call.b_row = n_;
    call.b_col = 1;
    call.c = param;
    call.ldc = n_;
    call.alpha = step;
    call.beta = keep;
    call.scratch = scratch;
    gemm_(call);
  }

  void UpdateBias(const T* grad, T step, T keep, T* sums, T* bias) const {
    SumColumns(grad, m_, outputs(), sums);
    for (int64_t j = 0; j < outputs(); ++j) bias[j] = keep * bias[j] + step * sums[j];
  }

  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int32_t threads_ = 1;
  bool is_turned_ = false;  // the weight is [outputs, inputs]
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.fc_sgd", "cpu", opwright_cpu::FcSgdKernel, float, double);
