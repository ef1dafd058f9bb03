#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/widened.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

struct TileAttrs {
  std::vector<int64_t> repeats;
  OPWRIGHT_ATTRIBUTES(repeats);
};

// The inputs are x (its shape only) and out_grad, in which each axis is viewed as two axes, the
// repeats and the axis of x. The output x_grad is the sum over the repeats.
template <typename T>
struct TileGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const TileAttrs& attrs) {
    std::vector<int64_t> shape = ctx.output(0).shape().dims();
    std::vector<int64_t> repeats = attrs.repeats;
    const size_t rank = std::max(shape.size(), repeats.size());
    shape.insert(shape.begin(), rank - shape.size(), 1);
    repeats.insert(repeats.begin(), rank - repeats.size(), 1);
    n_ = ctx.output(0).numel();
    is_empty_ = ctx.input(1).numel() == 0;
    if (is_empty_) return opwright::Status::Ok();
    std::vector<int64_t> dims;
    std::vector<bool> is_reduced;
    for (size_t i = 0; i < rank; ++i) {
      dims.insert(dims.end(), {repeats[i], shape[i]});
      is_reduced.insert(is_reduced.end(), {repeats[i] != 1, false});
    }
    reducer_ = Reducer<T, Sum<T>>(dims, is_reduced);
    ctx.SetWorkspace(reducer_.workspace_bytes());
    const auto bytes = static_cast<int64_t>(sizeof(T)) * (ctx.input(1).numel() + n_);
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const TileAttrs&) const {
    auto* x_grad = static_cast<T*>(ctx.output(0).raw());
    if (is_empty_) {
      std::fill(x_grad, x_grad + n_, T(0));
      return opwright::Status::Ok();
    }
    reducer_.Run(static_cast<const T*>(ctx.input(1).raw()), x_grad, ctx.workspace(),
                 ctx.n_threads());
    return opwright::Status::Ok();
  }

  Reducer<T, Sum<T>> reducer_;
  int64_t n_ = 0;
  bool is_empty_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("tile_grad", opwright_cpu::TileGradKernel);
