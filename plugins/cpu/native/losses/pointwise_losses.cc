// Element-wise losses and their gradients, either of x and its label or of the difference between
// two scores and its label.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/loss_formulas.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// The inputs for a range of elements. `y` is null unless the loss has two scores.
template <typename T>
struct Operands {
  const T* x;
  const T* y;
  const T* label;
  const T* out_grad;
};

template <typename T, bool kHasPair>
OPWRIGHT_CPU_INLINE T ScoreAt(const Operands<T>& from, int64_t i) {
  if constexpr (kHasPair) return from.x[i] - from.y[i];
  return from.x[i];
}

template <typename T, typename Formula, bool kHasPair>
OPWRIGHT_CPU_CLONES void LossRange(const Formula& formula, const Operands<T>& from, T* out,
                                   int64_t n) {
  const Formula f = formula;
  const Operands<T> in = from;
  for (int64_t i = 0; i < n; ++i) out[i] = f.Loss(ScoreAt<T, kHasPair>(in, i), in.label[i]);
}

template <typename T, typename Formula, bool kHasPair>
OPWRIGHT_CPU_CLONES void ScoreGradRange(const Formula& formula, const Operands<T>& from, T* out,
                                        int64_t n) {
  const Formula f = formula;
  const Operands<T> in = from;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = f.GradientX(ScoreAt<T, kHasPair>(in, i), in.label[i], in.out_grad[i]);
  }
}

// Computes the gradient of the second score of a pair.
template <typename T, typename Formula, bool kHasPair>
OPWRIGHT_CPU_CLONES void OtherGradRange(const Formula& formula, const Operands<T>& from, T* out,
                                        int64_t n) {
  const Formula f = formula;
  const Operands<T> in = from;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = -f.GradientX(ScoreAt<T, kHasPair>(in, i), in.label[i], in.out_grad[i]);
  }
}

template <typename T, typename Formula, bool kHasPair>
OPWRIGHT_CPU_CLONES void LabelGradRange(const Formula& formula, const Operands<T>& from, T* out,
                                        int64_t n) {
  const Formula f = formula;
  const Operands<T> in = from;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = f.GradientLabel(ScoreAt<T, kHasPair>(in, i), in.label[i], in.out_grad[i]);
  }
}

template <typename T, bool kHasPair>
Operands<T> OperandsOf(const opwright::RunContext& ctx, bool has_grad) {
  constexpr uint32_t kLabel = kHasPair ? 2 : 1;
  Operands<T> operands{};
  operands.x = ctx.input(0).data<T>();
  if constexpr (kHasPair) operands.y = ctx.input(1).data<T>();
  operands.label = ctx.input(kLabel).data<T>();
  if (has_grad) operands.out_grad = ctx.input(kLabel + 1).data<T>();
  return operands;
}

template <typename T>
Operands<T> From(const Operands<T>& all, int64_t begin) {
  return Operands<T>{all.x + begin, all.y == nullptr ? nullptr : all.y + begin, all.label + begin,
                     all.out_grad == nullptr ? nullptr : all.out_grad + begin};
}

// Slots: x, y (only for a pair), label; out.
template <typename T, typename Formula, bool kHasPair = false>
struct LossKernel {
  using Attrs = typename Formula::Attrs;
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}, {"out", "label"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    n_ = ctx.output(0).numel();
    const auto bytes = n_ * static_cast<int64_t>(3 * sizeof(T)) * Formula::kCost;
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    const Formula formula = Formula::Of(attrs);
    const Operands<T> all = OperandsOf<T, kHasPair>(ctx, false);
    T* out = ctx.output(0).data<T>();
    ParallelFor(
        ctx.n_threads(), n_, kElementGrain / Formula::kCost, 64, [=](int64_t begin, int64_t end) {
          LossRange<T, Formula, kHasPair>(formula, From(all, begin), out + begin, end - begin);
        });
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
};

// Slots: x, y (only for a pair), label, out_grad; x_grad, y_grad, label_grad.
template <typename T, typename Formula, bool kHasPair = false>
struct LossGradKernel {
  using Attrs = typename Formula::Attrs;
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    n_ = ctx.input(0).numel();
    const auto bytes = n_ * static_cast<int64_t>(4 * sizeof(T)) * Formula::kCost;
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    constexpr uint32_t kLabel = kHasPair ? 2 : 1;
    const Formula formula = Formula::Of(attrs);
    const Operands<T> all = OperandsOf<T, kHasPair>(ctx, true);
    for (uint32_t slot = 0; slot <= kLabel; ++slot) {
      if (!ctx.has_output(slot)) continue;
      T* out = ctx.output(slot).data<T>();
      const auto range = slot == 0        ? ScoreGradRange<T, Formula, kHasPair>
                         : slot == kLabel ? LabelGradRange<T, Formula, kHasPair>
                                          : OtherGradRange<T, Formula, kHasPair>;
      ParallelFor(ctx.n_threads(), n_, kElementGrain / Formula::kCost, 64,
                  [=](int64_t begin, int64_t end) {
                    range(formula, From(all, begin), out + begin, end - begin);
                  });
    }
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

// Registers the kernels of an operator and its gradient for a formula of one score or of a pair.
#define OPWRIGHT_CPU_REGISTER_LOSS(type, Name, Formula, has_pair)                          \
  namespace opwright_cpu {                                                                 \
  namespace {                                                                              \
  template <typename T>                                                                    \
  using Name##Kernel = LossKernel<T, Formula<T>, has_pair>;                                \
  template <typename T>                                                                    \
  using Name##GradKernel = LossGradKernel<T, Formula<T>, has_pair>;                        \
  }                                                                                        \
  }                                                                                        \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", opwright_cpu::Name##Kernel, float, double);    \
  OPWRIGHT_CPU_REGISTER_WIDENED(type, opwright_cpu::Name##Kernel);                         \
  OPWRIGHT_REGISTER_KERNEL_FOR(type "_grad", "cpu", opwright_cpu::Name##GradKernel, float, \
                               double);                                                    \
  OPWRIGHT_CPU_REGISTER_WIDENED(type "_grad", opwright_cpu::Name##GradKernel)

OPWRIGHT_CPU_REGISTER_LOSS("mse", Mse, Mse, false);
OPWRIGHT_CPU_REGISTER_LOSS("sigmoid_cross_entropy_with_logits", SigmoidCrossEntropy, SigmoidLoss,
                           false);
OPWRIGHT_CPU_REGISTER_LOSS("l1", L1, L1, false);
OPWRIGHT_CPU_REGISTER_LOSS("smooth_l1", SmoothL1, SmoothL1, false);
OPWRIGHT_CPU_REGISTER_LOSS("huber", Huber, Huber, false);
OPWRIGHT_CPU_REGISTER_LOSS("hinge", Hinge, Hinge, false);
OPWRIGHT_CPU_REGISTER_LOSS("log_loss", LogLoss, LogLoss, false);
OPWRIGHT_CPU_REGISTER_LOSS("kl_div", KlDiv, KlDiv, false);
OPWRIGHT_CPU_REGISTER_LOSS("margin_rank_loss", MarginRankLoss, Hinge, true);
OPWRIGHT_CPU_REGISTER_LOSS("rank_loss", RankLoss, SigmoidLoss, true);
