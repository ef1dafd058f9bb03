// mse and sigmoid_cross_entropy_with_logits, element by element, and their gradients.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "reduction/attributes.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// A formula: the loss, and its slopes along x and label.
struct Mse {
  static constexpr int64_t kCost = 1;
  template <typename T>
  static OPWRIGHT_CPU_INLINE T Loss(T x, T label) {
    return (x - label) * (x - label);
  }
  template <typename T>
  static OPWRIGHT_CPU_INLINE T SlopeX(T x, T label, T grad) {
    return (x - label) * grad * T(2);
  }
  template <typename T>
  static OPWRIGHT_CPU_INLINE T SlopeLabel(T x, T label, T grad) {
    return (x - label) * grad * T(-2);
  }
};

struct SigmoidLoss {
  static constexpr int64_t kCost = 3;
  // max(x, 0) - x * label + ln(1 + exp(-|x|)): no overflow, no loss of small values.
  template <typename T>
  static OPWRIGHT_CPU_INLINE T Loss(T x, T label) {
    const T positive = x < T(0) ? T(0) : x;
    const T negative = x < T(0) ? x : -x;
    return functors::Log1p(functors::Exp(negative)) + positive - x * label;
  }
  template <typename T>
  static OPWRIGHT_CPU_INLINE T SlopeX(T x, T label, T grad) {
    return (functors::Sigmoid(x) - label) * grad;
  }
  template <typename T>
  static OPWRIGHT_CPU_INLINE T SlopeLabel(T x, T, T grad) {
    return -(x * grad);
  }
};

template <typename T, typename Formula>
OPWRIGHT_CPU_CLONES void LossRange(const T* x, const T* label, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Formula::Loss(x[i], label[i]);
}

template <typename T, typename Formula>
OPWRIGHT_CPU_CLONES void XGradRange(const T* x, const T* label, const T* grad, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Formula::SlopeX(x[i], label[i], grad[i]);
}

template <typename T, typename Formula>
OPWRIGHT_CPU_CLONES void LabelGradRange(const T* x, const T* label, const T* grad, T* out,
                                        int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Formula::SlopeLabel(x[i], label[i], grad[i]);
}

// Slots: x, label; out.
template <typename T, typename Formula>
struct LossKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}, {"out", "label"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    n_ = ctx.output(0).numel();
    const auto bytes = n_ * static_cast<int64_t>(3 * sizeof(T)) * Formula::kCost;
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* label = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    ParallelFor(ctx.n_threads(), n_, kElementGrain / Formula::kCost, 64,
                [=](int64_t begin, int64_t end) {
                  LossRange<T, Formula>(x + begin, label + begin, out + begin, end - begin);
                });
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
};

// Slots: x, label, out_grad; x_grad, label_grad.
template <typename T, typename Formula>
struct LossGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    n_ = ctx.input(0).numel();
    const auto bytes = n_ * static_cast<int64_t>(4 * sizeof(T)) * Formula::kCost;
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* label = ctx.input(1).data<T>();
    const T* grad = ctx.input(2).data<T>();
    for (uint32_t slot = 0; slot < 2; ++slot) {
      if (!ctx.has_output(slot)) continue;
      T* out = ctx.output(slot).data<T>();
      const auto range = slot == 0 ? XGradRange<T, Formula> : LabelGradRange<T, Formula>;
      ParallelFor(ctx.n_threads(), n_, kElementGrain / Formula::kCost, 64,
                  [=](int64_t begin, int64_t end) {
                    range(x + begin, label + begin, grad + begin, out + begin, end - begin);
                  });
    }
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
};

template <typename T>
using MseKernel = LossKernel<T, Mse>;
template <typename T>
using MseGradKernel = LossGradKernel<T, Mse>;
template <typename T>
using SigmoidLossKernel = LossKernel<T, SigmoidLoss>;
template <typename T>
using SigmoidLossGradKernel = LossGradKernel<T, SigmoidLoss>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("mse", "cpu", opwright_cpu::MseKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("mse_grad", "cpu", opwright_cpu::MseGradKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("sigmoid_cross_entropy_with_logits", "cpu",
                             opwright_cpu::SigmoidLossKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("sigmoid_cross_entropy_with_logits_grad", "cpu",
                             opwright_cpu::SigmoidLossGradKernel, float, double);
