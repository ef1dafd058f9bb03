// The gradient of a fully connected layer behind gelu: what goes back through gelu, the gradient of
// the weight, and the sums that are the gradient of the bias before gelu. gelu is computed again
// for rows that both products need, beside its derivative.
#include <algorithm>
#include <type_traits>

#include "common/parallel.h"
#include "gemm/gemm.h"
#include "training/attributes.h"
#include "training/gelu_rows.h"
#include "training/partition.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

// Slots: x, weight, out_grad; x_grad, weight_grad, bias_grad. Each thread owns columns of x, which
// are rows of the weight: all that it writes is its own, and each sum has one order.
template <typename T>
struct GeluFcGradKernel {
  static_assert(std::is_same_v<T, float>, "panels are of float");

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  Status Prepare(opwright::PrepareContext& ctx, const GeluFcAttrs& attrs) {
    const opwright::Meta weight = ctx.input(1);
    k_ = weight.dim(0);
    n_ = weight.dim(1);
    OPWRIGHT_RETURN_IF_ERROR(CheckGeluLayer(k_, n_));
    m_ = ctx.input(2).numel() / n_;
    if (m_ < kFewest) return Status::Refused("is for at least ", kFewest, " rows, got ", m_);
    tanh_ = attrs.approximate == "tanh";
    product_ = BestPanelGemm();
    threads_ = ThreadsFor(m_, n_, k_, ctx.n_threads());
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * kColumns * (n_ + kRows)) * sizeof(float));
    ctx.SetEstimate(2 * EstimateProduct(m_, n_, k_, sizeof(float), threads_) +
                    static_cast<uint64_t>(m_ * k_ / threads_));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const GeluFcAttrs&) const {
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = OwnedRows(k_, thread, n_threads);
      float* memory = ctx.workspace<float>() + thread * kColumns * (n_ + kRows);
      for (int64_t column = part.begin; column < part.end; column += kColumns) {
        RunColumns(ctx, column, std::min(kColumns, part.end - column), memory);
      }
    });
    return Status::Ok();
  }

 private:
  // At once: their weights, gradients and what gelu returned stay in the second cache.
  static constexpr int64_t kColumns = 256;
  static constexpr int64_t kRows = 252;
  static constexpr int64_t kFewest = 48;  // for which the weight is worth being transposed

  void RunColumns(const opwright::RunContext& ctx, int64_t column, int64_t width,
                  float* memory) const {
    float* transposed = memory;
    float* activated = memory + kColumns * n_;
    Transpose(ctx.input(1).data<float>() + column * n_, width, transposed);
    float* sums = ctx.has_output(2) ? ctx.output(2).data<float>() + column : nullptr;
    if (sums != nullptr) std::fill_n(sums, width, 0.0f);
    float* weight_grad = ctx.output(1).data<float>() + column * n_;
    for (int64_t row = 0; row < m_; row += kRows) {
      const int64_t rows = std::min(kRows, m_ - row);
      const float* grad = ctx.input(2).data<float>() + row * n_;
      float* x_grad = ctx.output(0).data<float>() + row * k_ + column;
      Multiply(
          {rows, width, n_, grad, n_, 1, transposed, width, 1, x_grad, k_, 1.0f, 0.0f, nullptr});
      ActivateAndDeriveRows(
          {ctx.input(0).data<float>() + row * k_ + column, k_, rows, width, activated}, tanh_,
          x_grad, sums);
      Multiply({width, n_, rows, activated, 1, width, grad, n_, 1, weight_grad, n_, 1.0f,
                row == 0 ? 0.0f : 1.0f, nullptr});
    }
  }

  // Panel by panel.
  void Multiply(const GemmCall<float>& all) const {
    GemmCall<float> call = all;
    for (int64_t column = 0; column < all.n; column += product_.width) {
      call.n = std::min(product_.width, all.n - column);
      call.b = all.b + column;
      call.c = all.c + column;
      product_.multiply(call);
    }
  }

  // The rows of a line of the cache at a time.
  void Transpose(const float* w, int64_t rows, float* to) const {
    constexpr int64_t kBlock = 16;
    for (int64_t first = 0; first < rows; first += kBlock) {
      for (int64_t j = 0; j < n_; ++j) {
        for (int64_t i = first; i < first + kBlock; ++i) to[j * rows + i] = w[i * n_ + j];
      }
    }
  }

  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int32_t threads_ = 1;
  bool tanh_ = false;
  PanelGemm product_{};
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.gelu_fc_grad", "cpu", opwright_cpu::GeluFcGradKernel, float);
