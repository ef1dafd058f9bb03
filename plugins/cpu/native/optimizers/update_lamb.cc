// lamb: Adam with steps proportional to the norm of the parameter. The first pass updates the
// moments and computes the norms of parameter and direction; the second pass recomputes the
// direction and makes the step.
#include <cmath>

#include "common/widened.h"
#include "optimizers/attributes.h"
#include "optimizers/squares.h"
#include "optimizers/update.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct Lamb {
  using Attrs = AdamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 2;
  T beta1;
  T beta2;
  T rest1;  // 1 - beta1
  T rest2;
  T epsilon;
  T scale;
  T weight_decay;

  static Lamb Of(const Attrs& attrs, const Scalars& scalars) {
    const double correction = std::sqrt(1 - scalars.at[1]);
    return Lamb{static_cast<T>(attrs.beta1),
                static_cast<T>(attrs.beta2),
                static_cast<T>(1 - attrs.beta1),
                static_cast<T>(1 - attrs.beta2),
                static_cast<T>(attrs.epsilon * correction),
                static_cast<T>(correction / (1 - scalars.at[0])),
                static_cast<T>(attrs.weight_decay.value_or(0))};
  }
  template <typename P>
  static P Next(const Attrs& attrs, uint32_t which, P power, const Scalars&) {
    return power * static_cast<P>(which == 0 ? attrs.beta1 : attrs.beta2);
  }
  OPWRIGHT_CPU_INLINE T DirectionAt(const Elements<T>& e, int64_t i) const {
    return e.states[0][i] / (std::sqrt(e.states[1][i]) + epsilon) * scale +
           e.param[i] * weight_decay;
  }
  OPWRIGHT_CPU_CLONES static void MoveMoments(const Lamb& lamb, const Elements<T>& e) {
    T* moment1 = e.states[0];
    T* moment2 = e.states[1];
    const T* grad = e.grad;
    const Lamb f = lamb;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      moment1[i] = moment1[i] * f.beta1 + grad[i] * f.rest1;
      moment2[i] = moment2[i] * f.beta2 + grad[i] * grad[i] * f.rest2;
    }
  }
  OPWRIGHT_CPU_CLONES static void AddSquares(const Lamb& lamb, const Elements<T>& e, double* sums) {
    const Lamb f = lamb;
    const Elements<T> all = e;
    sums[0] = SumOfSquares(0, e.n, [&](int64_t i) { return all.param[i]; });
    sums[1] = SumOfSquares(0, e.n, [&](int64_t i) { return f.DirectionAt(all, i); });
  }
  OPWRIGHT_CPU_CLONES static void Step(const Lamb& lamb, const Elements<T>& e, T rate) {
    const Lamb f = lamb;
    const Elements<T> all = e;
    T* param = e.param;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) param[i] -= f.DirectionAt(all, i) * rate;
  }
};

// Slots: param, grad, learning_rate, moment1, moment2, beta1_power, beta2_power; param_out,
// moment1_out, moment2_out, beta1_power_out, beta2_power_out.
template <typename T>
struct LambKernel {
  using Attrs = AdamAttrs;
  using Slots = StepSlots<Lamb<T>, 2>;
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    n_ = ctx.input(0).numel();
    ctx.SetWorkspace(static_cast<uint64_t>(SquaresBlocks(n_)) * 2 * sizeof(double));
    ctx.SetEstimate(MoveNanoseconds(n_ * 10 * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    const Scalars scalars = Slots::Read(ctx, 0);
    const auto lamb = Lamb<T>::Of(attrs, scalars);
    auto* sums = ctx.workspace<double>();
    const int64_t blocks = SquaresBlocks(n_);
    ParallelFor(ctx.n_threads(), blocks, kGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const Elements<T> elements = BlocksOf(ctx, block, block + 1);
        Lamb<T>::MoveMoments(lamb, elements);
        Lamb<T>::AddSquares(lamb, elements, sums + 2 * block);
      }
    });
    double totals[2] = {0, 0};
    for (int64_t i = 0; i < 2 * blocks; ++i) totals[i % 2] += sums[i];
    const bool has_norms = totals[0] != 0 && totals[1] != 0;
    const double trust = has_norms ? std::sqrt(totals[0]) / std::sqrt(totals[1]) : 1.0;
    const auto rate = static_cast<T>(scalars.rate * trust);
    ParallelFor(ctx.n_threads(), blocks, kGrain, 1, [&](int64_t begin, int64_t end) {
      Lamb<T>::Step(lamb, BlocksOf(ctx, begin, end), rate);
    });
    Slots::Advance(ctx, attrs, 0);
    return opwright::Status::Ok();
  }

  Elements<T> BlocksOf(const opwright::RunContext& ctx, int64_t begin, int64_t end) const {
    const int64_t first = begin * kSquaresBlock;
    Elements<T> elements{};
    elements.param = ctx.output(0).data<T>() + first;
    elements.grad = ctx.input(1).data<T>() + first;
    elements.states[0] = ctx.output(1).data<T>() + first;
    elements.states[1] = ctx.output(2).data<T>() + first;
    elements.n = std::min(end * kSquaresBlock, n_) - first;
    return elements;
  }

  static constexpr int64_t kGrain = 4;  // minimum number of blocks per thread
  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("lamb", opwright_cpu::LambKernel);
