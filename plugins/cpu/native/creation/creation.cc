// constant, arange, linspace and eye, compiled without contraction, so every product is rounded.
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "common/clones.h"
#include "common/widened.h"
#include "movement/items.h"
#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

struct ConstantAttrs {
  std::vector<double> values;
  OPWRIGHT_ATTRIBUTES(values);
};

struct StepAttrs {
  double start;
  double stop;
  std::optional<double> step;  // set for arange
  std::optional<int64_t> num;  // set for linspace
  OPWRIGHT_ATTRIBUTES(start, stop, step, num);
};

struct EyeAttrs {
  int64_t k;
  OPWRIGHT_ATTRIBUTES(k);
};

// The shape rule has checked that an integer dtype can represent the value.
template <typename T>
T ItemOf(double value) {
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  return static_cast<T>(value);
}

template <typename T>
struct ConstantKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConstantAttrs& attrs) {
    items_.clear();
    for (const double value : attrs.values) items_.push_back(Item{ItemOf<T>(value)});
    ctx.SetEstimate(MoveNanoseconds(ctx.output(0).numel() * static_cast<int64_t>(sizeof(T)), 1));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const ConstantAttrs&) const {
    if (!items_.empty()) {
      std::memcpy(ctx.output(0).raw(), items_.data(), items_.size() * sizeof(T));
    }
    return opwright::Status::Ok();
  }
  struct Item {  // avoids std::vector<bool>, which stores bits
    T value;
  };
  std::vector<Item> items_;
};

template <typename T>
OPWRIGHT_CPU_CLONES void WriteSteps(T* out, int64_t begin, int64_t end, double start, double step) {
  for (int64_t i = begin; i < end; ++i) {
    out[i] = static_cast<T>(static_cast<double>(i) * step + start);
  }
}

// Intermediate integers are unsigned so that sums wrap.
template <typename T>
OPWRIGHT_CPU_CLONES void WriteWholeSteps(T* out, int64_t begin, int64_t end, uint64_t start,
                                         uint64_t step) {
  for (int64_t i = begin; i < end; ++i) {
    out[i] = static_cast<T>(start + static_cast<uint64_t>(i) * step);
  }
}

// If the step exceeds int64, the range has at most one element, so the step is unused.
uint64_t WholeOf(double value) {
  if (value >= 0x1p63) return value < 0x1p64 ? static_cast<uint64_t>(value) : 0;
  return value >= -0x1p63 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : 0;
}

// The kernel that arange and linspace share.
template <typename T>
struct StepsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const StepAttrs& attrs) {
    n_ = ctx.output(0).numel();
    step_ = attrs.step ? *attrs.step : (attrs.stop - attrs.start) / Gaps();
    ctx.SetEstimate(MoveNanoseconds(n_ * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const StepAttrs& attrs) const {
    if (n_ == 0) return opwright::Status::Ok();
    T* out = ctx.output(0).data<T>();
    ParallelFor(ctx.n_threads(), n_, kElementGrain, 64, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        WriteSteps(out, begin, end, attrs.start, step_);
      } else {
        WriteWholeSteps(out, begin, end, WholeOf(attrs.start), WholeOf(step_));
      }
    });
    if (!attrs.step && n_ > 1) out[n_ - 1] = static_cast<T>(attrs.stop);
    return opwright::Status::Ok();
  }
  double Gaps() const { return static_cast<double>(std::max<int64_t>(n_ - 1, 1)); }
  int64_t n_ = 0;
  double step_ = 1;
};

template <typename T>
struct EyeKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const EyeAttrs&) {
    const std::vector<int64_t> shape = ctx.output(0).shape().dims();
    rows_ = shape[0];
    columns_ = shape[1];
    item_ = ItemBytes(ctx.output(0).dtype());
    one_ = OneOf(ctx.output(0).dtype());
    ctx.SetEstimate(MoveNanoseconds(rows_ * columns_ * item_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const EyeAttrs& attrs) const {
    if (rows_ * columns_ == 0) return opwright::Status::Ok();
    char* out = MutableBytes(ctx.output(0));
    ZeroBytes(out, rows_ * columns_ * item_, ctx.n_threads());
    // The shape rule bounds k, so neither sum overflows.
    const int64_t end = std::min(rows_, columns_ - attrs.k);
    for (int64_t i = std::max<int64_t>(0, -attrs.k); i < end; ++i) {
      std::memcpy(out + (i * columns_ + i + attrs.k) * item_, &one_, static_cast<size_t>(item_));
    }
    return opwright::Status::Ok();
  }
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t item_ = 4;
  uint64_t one_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("constant", "cpu", opwright_cpu::ConstantKernel, float, double, int8_t,
                             int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                             bool);
OPWRIGHT_CPU_REGISTER_WIDENED("constant", opwright_cpu::ConstantKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("arange", "cpu", opwright_cpu::StepsKernel, float, double, int8_t,
                             int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t);
OPWRIGHT_CPU_REGISTER_WIDENED("arange", opwright_cpu::StepsKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("linspace", opwright_cpu::StepsKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("eye", "cpu", opwright_cpu::EyeKernel, opwright::AnyDtype);
