#include <cstdint>
#include <type_traits>

#include "common/widened.h"
#include "movement/scatter.h"
#include "movement/stream.h"

namespace opwright_cpu {
namespace {

// Sums and products of whole numbers wrap.
template <typename T, bool kIsFloat = std::is_floating_point_v<T>>
struct Wrapping {
  using Type = T;
};
template <typename T>
struct Wrapping<T, false> {
  using Type = uint64_t;
};

struct Add {
  template <typename T>
  static T Of(T x, T update) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(x) + static_cast<W>(update));
  }
};
struct Multiply {
  template <typename T>
  static T Of(T x, T update) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(x) * static_cast<W>(update));
  }
};
// A NaN stays, wherever it stands.
struct Maximum {
  template <typename T>
  static T Of(T x, T update) {
    return x >= update || x != x ? x : update;
  }
};
struct Minimum {
  template <typename T>
  static T Of(T x, T update) {
    return x <= update || x != x ? x : update;
  }
};

// Inputs x, index and updates; the output may lie on x.
template <typename T>
struct ScatterKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    scattered_.Prepare(ctx, attrs);
    reduction_ = ReductionOf(attrs.reduction);
    bytes_ = ctx.output(0).numel() * kItem;
    ctx.SetWorkspace(scattered_.workspace_bytes());
    ctx.SetEstimate(MoveNanoseconds(bytes_ + 4 * kItem * scattered_.n_updates(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const ScatterAttrs&) const {
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    if (x != out && bytes_ > 0) CopyBytes(x, out, bytes_, ctx.n_threads());
    auto* items = ctx.output(0).data<T>();
    const auto* updates = ctx.input(2).data<T>();
    if (reduction_ == Reduction::kNone) {
      return Walk(ctx, [=](int64_t place, int64_t i) { items[place] = updates[i]; });
    }
    if constexpr (!std::is_same_v<T, bool>) {  // the shape rule has refused it
      switch (reduction_) {
        case Reduction::kAdd:
          return Combine<Add>(ctx, items, updates);
        case Reduction::kMul:
          return Combine<Multiply>(ctx, items, updates);
        case Reduction::kMax:
          return Combine<Maximum>(ctx, items, updates);
        default:
          return Combine<Minimum>(ctx, items, updates);
      }
    }
    return opwright::Status::Ok();
  }

  template <typename Rule>
  opwright::Status Combine(const opwright::RunContext& ctx, T* items, const T* updates) const {
    return Walk(ctx, [=](int64_t place, int64_t i) {
      items[place] = Rule::template Of<T>(items[place], updates[i]);
    });
  }

  template <typename Function>
  opwright::Status Walk(const opwright::RunContext& ctx, const Function& function) const {
    return scattered_.Run(ctx, kItem, [&](const AxisWalk::Share& share, const auto* index) {
      return scattered_.walk().template Visit<false>(index, share, function);
    });
  }

  static constexpr int64_t kItem = sizeof(T);
  Scattered scattered_;
  Reduction reduction_ = Reduction::kNone;
  int64_t bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scatter", "cpu", opwright_cpu::ScatterKernel, float, double, int8_t,
                             int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                             bool);
OPWRIGHT_CPU_REGISTER_WIDENED("scatter", opwright_cpu::ScatterKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("scatter_nd", "cpu", opwright_cpu::ScatterKernel, float, double,
                             int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                             uint64_t, bool);
OPWRIGHT_CPU_REGISTER_WIDENED("scatter_nd", opwright_cpu::ScatterKernel);
