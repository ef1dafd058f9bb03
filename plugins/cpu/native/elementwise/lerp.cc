// lerp: linear interpolation; the three inputs are broadcast.
#include "common/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

// Interpolates from the nearer end, so a weight of 1 returns exactly y.
template <typename T>
OPWRIGHT_CPU_CLONES void LerpLoop(const void* const* inputs, void* out, int64_t n,
                                  const Parameters&) {
  const auto* x = static_cast<const T*>(inputs[0]);
  const auto* y = static_cast<const T*>(inputs[1]);
  const auto* weight = static_cast<const T*>(inputs[2]);
  auto* to = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T whole = y[i] - x[i];
    const bool is_near_x = (weight[i] < T(0) ? -weight[i] : weight[i]) < T(0.5);
    const T share = is_near_x ? weight[i] : weight[i] - T(1);
    to[i] = whole * share + (is_near_x ? x[i] : y[i]);
  }
}

struct LerpKernel : MapKernel {
  static void Configure(opwright::KernelOptions& options) {
    SetReuse(options, "out", {"x", "y", "weight"});
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const Loop loop = ctx.output(0).dtype().bits == 64 ? &LerpLoop<double> : &LerpLoop<float>;
    return Plan(ctx, {loop, {}, 0, {0, 1, 2}});
  }
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(lerp, LerpKernel, OPWRIGHT_CPU_FLOATS);
