// A fully connected layer after gelu: out = gelu(x) w + b. The results of gelu are multiplied block
// by block, so only one block of them exists at a time.
#include <algorithm>
#include <type_traits>

#include "common/clones.h"
#include "common/parallel.h"
#include "fully_connected/attributes.h"
#include "fully_connected/gelu_layer.h"
#include "fully_connected/gelu_rows.h"
#include "fully_connected/partition.h"

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
    OPWRIGHT_RETURN_IF_ERROR(layer_.Describe(ctx.input(1), ctx.output(0), attrs));
    const int64_t most =
        std::min((layer_.m + kRows - 1) / kRows, layer_.m * layer_.n * layer_.k / kLeastWork);
    threads_ = static_cast<int32_t>(std::clamp<int64_t>(most, 1, ctx.n_threads()));
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * OwnFloats()) * sizeof(float));
    ctx.SetEstimate(EstimateProduct(layer_.m, layer_.n, layer_.k, sizeof(float), threads_) +
                    static_cast<uint64_t>(layer_.m * layer_.k / (2 * threads_)));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const GeluFcAttrs&) const {
    const float* x = ctx.input(0).data<float>();
    const float* bias = ctx.has_input(2) ? ctx.input(2).data<float>() : nullptr;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(layer_.m, kRowStep, thread, n_threads);
      float* activated = ctx.workspace<float>() + thread * OwnFloats();
      const float* weight = ctx.input(1).data<float>();
      if (layer_.is_turned && part.begin < part.end) {
        float* rows = activated + BlockFloats();
        TransposeRows(weight, layer_.k, layer_.n, layer_.k, rows);
        weight = rows;
      }
      for (int64_t row = part.begin; row < part.end; row += kRows) {
        const int64_t rows = std::min(kRows, part.end - row);
        float* out = ctx.output(0).data<float>() + row * layer_.n;
        for (int64_t term = 0; term < layer_.k; term += kTerms) {
          const int64_t terms = std::min(kTerms, layer_.k - term);
          ActivateRows({x + row * layer_.k + term, layer_.k, rows, terms, activated}, layer_.tanh);
          Multiply(activated, rows, weight + term * layer_.n, terms, term == 0, out);
        }
        if (bias != nullptr) AddToRows(bias, rows, layer_.n, out);
      }
    });
    return Status::Ok();
  }

 private:
  static constexpr int64_t kRowStep = 6;  // rows per tile
  static constexpr int64_t kRows = 126;   // with kTerms, a quarter of the L2 cache
  static constexpr int64_t kTerms = 512;

  // Each thread transposes the complete weight. Sharing this work would be faster, but then a
  // product could not read the rows from the cache of its thread.
  int64_t OwnFloats() const { return BlockFloats() + (layer_.is_turned ? layer_.k * layer_.n : 0); }
  int64_t BlockFloats() const { return kRows * std::min(kTerms, layer_.k); }

  void Multiply(const float* activated, int64_t rows, const float* w, int64_t terms, bool is_first,
                float* out) const {
    for (int64_t column = 0; column < layer_.n; column += layer_.product.width) {
      const int64_t width = std::min(layer_.product.width, layer_.n - column);
      layer_.product.multiply({rows, width, terms, activated, terms, 1, w + column, layer_.n, 1,
                               out + column, layer_.n, 1.0f, is_first ? 0.0f : 1.0f, nullptr});
    }
  }

  GeluLayer layer_;
  int32_t threads_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.gelu_fc", "cpu", opwright_cpu::GeluFcKernel, float);
