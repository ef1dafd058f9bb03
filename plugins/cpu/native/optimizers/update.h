// Code shared by all optimizers, which assigns the elements of one or many parameters per step to
// threads, and handles the scalars of a step. These files are compiled without contraction (fused
// multiply-add) so that results do not depend on the positions of elements in vectors and shares.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_UPDATE_H_
#define OPWRIGHT_CPU_OPTIMIZERS_UPDATE_H_

#include <cmath>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "movement/tensors.h"
#include "optimizers/update_shares.h"

namespace opwright_cpu {

// The learning rate and the scalar states, which are powers of the betas or the step number.
struct Scalars {
  double rate;
  double at[2];
};

// The elements of one share. The parameter and its states are updated in place, because the outputs
// alias the inputs. An absent state is null.
template <typename T>
struct Elements {
  T* param;
  const T* grad;
  T* states[3];
  int64_t n;
};

inline double ReadScalar(const opwright::InputTensor& tensor) {
  return tensor.dtype().bits == 64 ? *tensor.data<double>()
                                   : static_cast<double>(*tensor.data<float>());
}

// The slots of a step. The learning rate is slot kRate; the states follow it, then the scalars.
// Outputs are param, the states and the scalars.
template <typename Rule, uint32_t kRate>
struct StepSlots {
  static constexpr uint32_t kFirstScalar = kRate + 1 + Rule::kStates;

  // Reads the scalars of parameter i of the lists.
  static Scalars Read(const opwright::RunContext& ctx, uint32_t i) {
    Scalars scalars{ReadScalar(ctx.input(kRate)), {0, 0}};
    if constexpr (Rule::kScalars > 0) {
      for (uint32_t which = 0; which < Rule::kScalars; ++which) {
        scalars.at[which] = ReadScalar(ctx.input(kFirstScalar + which, i));
      }
    }
    return scalars;
  }

  static void Advance(const opwright::RunContext& ctx, const typename Rule::Attrs& attrs,
                      uint32_t i) {
    if constexpr (Rule::kScalars > 0) {
      const Scalars scalars = Read(ctx, i);
      for (uint32_t which = 0; which < Rule::kScalars; ++which) {
        AdvanceOne(ctx.input(kFirstScalar + which, i), ctx.output(1 + Rule::kStates + which, i),
                   attrs, which, scalars);
      }
    } else {
      static_cast<void>(ctx);
      static_cast<void>(attrs);
      static_cast<void>(i);
    }
  }

 private:
  // As in NumPy, the next value of a scalar is computed in the scalar's dtype.
  static void AdvanceOne(const opwright::InputTensor& scalar, const opwright::OutputTensor& next,
                         const typename Rule::Attrs& attrs, uint32_t which,
                         const Scalars& scalars) {
    if (scalar.dtype().bits == 64) {
      *next.data<double>() = Rule::Next(attrs, which, *scalar.data<double>(), scalars);
    } else {
      *next.data<float>() = Rule::Next(attrs, which, *scalar.data<float>(), scalars);
    }
  }
};

// The inputs are param, grad, learning_rate, the states and the scalars; the outputs are all of
// these except grad and learning_rate, in the same order. In an optimizer, slots hold one
// parameter; in the operator that updates many parameters in one step, they hold lists of equal
// length.
//
// A rule defines kStates states with the shape of the parameter, kScalars scalar states, the
// factors of a step (computed once per parameter), the loop over the elements, and how a scalar
// advances.
template <typename Rule, typename T>
struct UpdateKernel {
  using Attrs = typename Rule::Attrs;
  using Factors = typename Rule::Factors;
  using Slots = StepSlots<Rule, 2>;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    const uint32_t count = ctx.input_count(0);
    std::vector<std::vector<int64_t>> shapes;
    int64_t numel = 0;
    for (uint32_t i = 0; i < count; ++i) {
      shapes.push_back(ctx.input(0, i).shape().dims());
      numel += ctx.input(0, i).numel();
    }
    shares_ = DealOut(shapes, ctx.n_threads());
    ctx.SetWorkspace(count * sizeof(Factors));
    const int64_t streams = 3 + 2 * Rule::kStates;
    ctx.SetEstimate(MoveNanoseconds(numel * streams * static_cast<int64_t>(sizeof(T)),
                                    static_cast<int32_t>(shares_.size())));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    // All scalars are read before any thread advances one.
    auto* factors = ctx.workspace<Factors>();
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      factors[i] = Rule::FactorsOf(attrs, Slots::Read(ctx, i));
    }
    const auto n_shares = static_cast<int32_t>(shares_.size());
    Parallel(n_shares, [&](int32_t thread, int32_t threads) {
      for (int32_t owner = thread; owner < n_shares; owner += threads) {
        for (const UpdateShare& share : shares_[static_cast<size_t>(owner)]) {
          Rule::Update(factors[share.parameter], ElementsOf(ctx, share));
        }
      }
    });
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) Slots::Advance(ctx, attrs, i);
    return opwright::Status::Ok();
  }

  static Elements<T> ElementsOf(const opwright::RunContext& ctx, const UpdateShare& share) {
    const uint32_t i = share.parameter;
    Elements<T> elements{};
    elements.param = static_cast<T*>(ctx.output(0, i).raw()) + share.begin;
    elements.grad = static_cast<const T*>(ctx.input(1, i).raw()) + share.begin;
    if constexpr (Rule::kStates > 0) {
      for (uint32_t state = 0; state < Rule::kStates; ++state) {
        if (!ctx.has_output(1 + state)) continue;
        elements.states[state] = static_cast<T*>(ctx.output(1 + state, i).raw()) + share.begin;
      }
    }
    elements.n = share.end - share.begin;
    return elements;
  }

  std::vector<std::vector<UpdateShare>> shares_;
};

// Registers the optimizer and the operator that updates many parameters in one step.
#define OPWRIGHT_CPU_REGISTER_UPDATE(type, Kernel)                               \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", Kernel, float, double);              \
  OPWRIGHT_CPU_REGISTER_WIDENED(type, Kernel);                                   \
  OPWRIGHT_REGISTER_KERNEL_FOR("std.multi_" type, "cpu", Kernel, float, double); \
  OPWRIGHT_CPU_REGISTER_WIDENED("std.multi_" type, Kernel)

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_UPDATE_H_
