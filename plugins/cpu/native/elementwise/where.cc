// where: selects one of two values per element. `where` only moves bits, so it supports any dtype.
#include "common/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

template <typename Item>
OPWRIGHT_CPU_CLONES void WhereLoop(const void* const* inputs, void* out, int64_t n,
                                   const Parameters&) {
  const auto* condition = static_cast<const uint8_t*>(inputs[0]);
  const auto* x = static_cast<const Item*>(inputs[1]);
  const auto* y = static_cast<const Item*>(inputs[2]);
  auto* to = static_cast<Item*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Item first = x[i];
    const Item second = y[i];
    to[i] = condition[i] != 0 ? first : second;
  }
}

Loop SelectWhere(int item_bytes) {
  switch (item_bytes) {
    case 1:
      return &WhereLoop<uint8_t>;
    case 2:
      return &WhereLoop<uint16_t>;
    case 4:
      return &WhereLoop<uint32_t>;
    default:
      return &WhereLoop<uint64_t>;
  }
}

struct WhereKernel : MapKernel {
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x", "y"}); }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    return Plan(
        ctx, {SelectWhere((ctx.output(0).dtype().bits + 7) / 8), {}, 0, {0, 1, 2}, nullptr, true});
  }
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(where, WhereKernel, opwright::AnyDtype, opwright::NarrowDtypes);
