// The gradients of a fully connected layer after gelu: the gradient through gelu, its column sums
// (the gradient of the bias before gelu), and the weight gradient. gelu and its derivative are
// recomputed together, block by block, for both products.
#include <algorithm>
#include <type_traits>

#include "common/parallel.h"
#include "fully_connected/attributes.h"
#include "fully_connected/gelu_layer.h"
#include "fully_connected/gelu_rows.h"
#include "fully_connected/partition.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

// Slots: x, weight, out_grad; x_grad, weight_grad, bias_grad. Each thread owns columns of x, which
// correspond to rows of the weight. No other thread writes its results, and the order of each sum
// is fixed.
template <typename T>
struct GeluFcGradKernel {
  static_assert(std::is_same_v<T, float>, "panels are of float");

  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"x_grad", "x"}};
  }

  Status Prepare(opwright::PrepareContext& ctx, const GeluFcAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(layer_.Describe(ctx.input(1), ctx.input(2), attrs));
    if (layer_.m < kFewest)
      return Status::Refused("needs at least ", kFewest, " rows, got ", layer_.m);
    threads_ = ThreadsFor(layer_.m, layer_.n, layer_.k, ctx.n_threads());
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * PerThread()) * sizeof(float));
    ctx.SetEstimate(2 * EstimateProduct(layer_.m, layer_.n, layer_.k, sizeof(float), threads_) +
                    static_cast<uint64_t>(layer_.m * layer_.k / threads_));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const GeluFcAttrs&) const {
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = OwnedRows(layer_.k, thread, n_threads);
      float* memory = ctx.workspace<float>() + thread * PerThread();
      for (int64_t column = part.begin; column < part.end; column += kColumns) {
        RunColumns(ctx, column, std::min(kColumns, part.end - column), memory);
      }
    });
    return Status::Ok();
  }

 private:
  // Columns per block, whose weights, gradients and results of gelu fit into the L2 cache.
  static constexpr int64_t kColumns = 256;
  static constexpr int64_t kRows = 252;
  static constexpr int64_t kFewest = 48;  // rows from which transposing the weight pays off

  int64_t PerThread() const { return kColumns * (layer_.n + 2 * kRows); }

  void RunColumns(const opwright::RunContext& ctx, int64_t column, int64_t width,
                  float* memory) const {
    float* transposed = memory;
    float* activated = memory + kColumns * layer_.n;
    float* products = activated + kColumns * kRows;  // x_grad may use the memory of x
    const float* weight = ctx.input(1).data<float>();
    const bool is_turned =
        layer_.is_turned;  // the weight is already stored in the layout of the product
    if (!is_turned)
      TransposeRows(weight + column * layer_.n, layer_.n, width, layer_.n, transposed);
    const float* factor = is_turned ? weight + column : transposed;
    const int64_t factor_row = is_turned ? layer_.k : width;
    float* sums = ctx.has_output(2) ? ctx.output(2).data<float>() + column : nullptr;
    if (sums != nullptr) std::fill_n(sums, width, 0.0f);
    float* weight_grad = ctx.output(1).data<float>() + column * (is_turned ? 1 : layer_.n);
    for (int64_t row = 0; row < layer_.m; row += kRows) {
      const int64_t rows = std::min(kRows, layer_.m - row);
      const float* grad = ctx.input(2).data<float>() + row * layer_.n;
      Multiply({rows, width, layer_.n, grad, layer_.n, 1, factor, factor_row, 1, products, width,
                1.0f, 0.0f, nullptr});
      const int64_t first = row * layer_.k + column;
      ActivateAndDeriveRows({ctx.input(0).data<float>() + first, layer_.k, rows, width, activated},
                            layer_.tanh, {products, ctx.output(0).data<float>() + first, sums});
      const float keep = row == 0 ? 0.0f : 1.0f;
      if (is_turned) {
        Multiply({layer_.n, width, rows, grad, 1, layer_.n, activated, width, 1, weight_grad,
                  layer_.k, 1.0f, keep, nullptr});
      } else {
        Multiply({width, layer_.n, rows, activated, 1, width, grad, layer_.n, 1, weight_grad,
                  layer_.n, 1.0f, keep, nullptr});
      }
    }
  }

  // Multiplies panel by panel.
  void Multiply(const GemmCall<float>& all) const {
    GemmCall<float> call = all;
    for (int64_t column = 0; column < all.n; column += layer_.product.width) {
      call.n = std::min(layer_.product.width, all.n - column);
      call.b = all.b + column;
      call.c = all.c + column;
      layer_.product.multiply(call);
    }
  }

  GeluLayer layer_;
  int32_t threads_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.gelu_fc_grad", "cpu", opwright_cpu::GeluFcGradKernel, float);
