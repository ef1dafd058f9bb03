// A fully connected layer behind gelu: out = gelu(x) w + b. What gelu returns is multiplied block
// by block and never stored as a whole.
#include <algorithm>
#include <type_traits>

#include "common/clones.h"
#include "common/parallel.h"
#include "gemm/gemm.h"
#include "training/attributes.h"
#include "training/gelu_rows.h"
#include "training/partition.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

OPWRIGHT_CPU_CLONES void AddToRows(const float* bias, int64_t rows, int64_t n, float* out) {
  for (int64_t i = 0; i < rows; ++i, out += n) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] += bias[j];
  }
}

// Slots: x, weight, bias; out.
template <typename T>
struct GeluFcKernel {
  static_assert(std::is_same_v<T, float>, "panels are of float");

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  Status Prepare(opwright::PrepareContext& ctx, const GeluFcAttrs& attrs) {
    const opwright::Meta weight = ctx.input(1);
    k_ = weight.dim(0);
    n_ = weight.dim(1);
    OPWRIGHT_RETURN_IF_ERROR(CheckGeluLayer(k_, n_));
    m_ = ctx.output(0).numel() / n_;
    tanh_ = attrs.approximate == "tanh";
    product_ = BestPanelGemm();
    const int64_t most = std::min((m_ + kRows - 1) / kRows, m_ * n_ * k_ / kLeastWork);
    threads_ = static_cast<int32_t>(std::clamp<int64_t>(most, 1, ctx.n_threads()));
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * BlockFloats()) * sizeof(float));
    ctx.SetEstimate(EstimateProduct(m_, n_, k_, sizeof(float), threads_) +
                    static_cast<uint64_t>(m_ * k_ / (2 * threads_)));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const GeluFcAttrs&) const {
    const float* x = ctx.input(0).data<float>();
    const float* bias = ctx.has_input(2) ? ctx.input(2).data<float>() : nullptr;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(m_, kRowStep, thread, n_threads);
      float* activated = ctx.workspace<float>() + thread * BlockFloats();
      for (int64_t row = part.begin; row < part.end; row += kRows) {
        const int64_t rows = std::min(kRows, part.end - row);
        float* out = ctx.output(0).data<float>() + row * n_;
        for (int64_t term = 0; term < k_; term += kTerms) {
          const int64_t terms = std::min(kTerms, k_ - term);
          ActivateRows({x + row * k_ + term, k_, rows, terms, activated}, tanh_);
          Multiply(activated, rows, ctx.input(1).data<float>() + term * n_, terms, term == 0, out);
        }
        if (bias != nullptr) AddToRows(bias, rows, n_, out);
      }
    });
    return Status::Ok();
  }

 private:
  static constexpr int64_t kRowStep = 6;  // of a tile
  static constexpr int64_t kRows = 126;   // at once: with kTerms a quarter of the second cache
  static constexpr int64_t kTerms = 512;

  int64_t BlockFloats() const { return kRows * std::min(kTerms, k_); }

  void Multiply(const float* activated, int64_t rows, const float* w, int64_t terms, bool is_first,
                float* out) const {
    for (int64_t column = 0; column < n_; column += product_.width) {
      const int64_t width = std::min(product_.width, n_ - column);
      product_.multiply({rows, width, terms, activated, terms, 1, w + column, n_, 1, out + column,
                         n_, 1.0f, is_first ? 0.0f : 1.0f, nullptr});
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

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.gelu_fc", "cpu", opwright_cpu::GeluFcKernel, float);
