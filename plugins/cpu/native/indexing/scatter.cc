// scatter and scatter_nd: set elements of x, or combine them with the updates by a reduction.
#include <cstdint>
#include <type_traits>

#include "common/digit_sort.h"
#include "common/widened.h"
#include "indexing/scatter.h"
#include "movement/stream.h"

#define OPWRIGHT_CPU_SCATTERED \
  float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool

namespace opwright_cpu {
namespace {

// Rules for the new value of an element. Sums and products of integers wrap.
struct SetRule {
  template <typename T>
  static T Of(T, T update) {
    return update;
  }
};
template <typename T>
using Wrapping = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
struct SumRule {
  template <typename T>
  static T Of(T x, T update) {
    if constexpr (std::is_same_v<T, bool>) return x || update;
    using W = Wrapping<T>;
    return static_cast<T>(static_cast<W>(x) + static_cast<W>(update));
  }
};
struct ProductRule {
  template <typename T>
  static T Of(T x, T update) {
    if constexpr (std::is_same_v<T, bool>) return x && update;
    using W = Wrapping<T>;
    return static_cast<T>(static_cast<W>(x) * static_cast<W>(update));
  }
};
// NaN propagates from both x and the updates.
struct MaximumRule {
  template <typename T>
  static T Of(T x, T update) {
    return x >= update || x != x ? x : update;
  }
};
struct MinimumRule {
  template <typename T>
  static T Of(T x, T update) {
    return x <= update || x != x ? x : update;
  }
};

using Scatter = opwright::Status (*)(const Scattered& scattered, const opwright::RunContext& ctx);

// Applies the updates (input 2) to output 0.
template <typename T, typename Rule>
opwright::Status ScatterBy(const Scattered& scattered, const opwright::RunContext& ctx) {
  auto* items = static_cast<T*>(ctx.output(0).raw());
  const auto* updates = static_cast<const T*>(ctx.input(2).raw());
  const auto take = [=](int64_t place, int64_t i) {
    items[place] = Rule::template Of<T>(items[place], updates[i]);
  };
  return scattered.Run(ctx, sizeof(T), [&](const AxisWalk::Share& share, const auto* index) {
    return scattered.walk().template Visit<false>(index, share, take);
  });
}

// Dtypes of the same width share a function if it only moves bits or if integers wrap.
template <typename T>
Scatter SelectRule(Reduction reduction) {
  using Bits = typename UnsignedOf<sizeof(T)>::Type;
  constexpr bool kWraps = !std::is_floating_point_v<T> && !std::is_same_v<T, bool>;
  using Number = std::conditional_t<kWraps, Bits, T>;
  if (reduction == Reduction::kAdd) return &ScatterBy<Number, SumRule>;
  if (reduction == Reduction::kMul) return &ScatterBy<Number, ProductRule>;
  if (reduction == Reduction::kMax) return &ScatterBy<T, MaximumRule>;
  if (reduction == Reduction::kMin) return &ScatterBy<T, MinimumRule>;
  return &ScatterBy<Bits, SetRule>;
}

template <typename... Dtypes>
Scatter SelectScatter(DLDataType dtype, Reduction reduction) {
  Scatter scatter = nullptr;
  ((opwright::SameDtype(dtype, opwright::DtypeOf<Dtypes>())
        ? scatter = SelectRule<Dtypes>(reduction)
        : scatter),
   ...);
  return scatter;
}

// The inputs are x, index and updates; the output may share the memory of x.
struct ScatterKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    scattered_.Prepare(ctx, attrs);
    const DLDataType dtype = ctx.input(0).dtype();
    scatter_ = SelectScatter<OPWRIGHT_CPU_SCATTERED>(dtype, ReductionOf(attrs.reduction));
    const int64_t item = dtype.bits / 8;
    bytes_ = ctx.output(0).numel() * item;
    ctx.SetWorkspace(scattered_.workspace_bytes());
    ctx.SetEstimate(MoveNanoseconds(bytes_ + 4 * item * scattered_.n_updates(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const ScatterAttrs&) const {
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    if (x != out && bytes_ > 0) CopyBytes(x, out, bytes_, ctx.n_threads());
    return scatter_(scattered_, ctx);
  }

  Scattered scattered_;
  Scatter scatter_ = nullptr;
  int64_t bytes_ = 0;
};

// All dtypes share one class, which reads the dtype in Prepare.
template <typename>
using ScatterOf = ScatterKernel;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scatter", "cpu", opwright_cpu::ScatterOf, OPWRIGHT_CPU_SCATTERED);
OPWRIGHT_CPU_REGISTER_WIDENED("scatter", opwright_cpu::ScatterOf);
OPWRIGHT_REGISTER_KERNEL_FOR("scatter_nd", "cpu", opwright_cpu::ScatterOf, OPWRIGHT_CPU_SCATTERED);
OPWRIGHT_CPU_REGISTER_WIDENED("scatter_nd", opwright_cpu::ScatterOf);
#undef OPWRIGHT_CPU_SCATTERED
