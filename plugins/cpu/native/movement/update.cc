// sgd, momentum, adam and adamw, of one parameter or of many in one step. Compiled without
// contraction, so that an element has one result, wherever a vector or a share begins.
#include <cmath>

#include "common/clones.h"
#include "common/parallel.h"
#include "movement/attributes.h"
#include "movement/tensors.h"
#include "movement/update_shares.h"

namespace opwright_cpu {
namespace {

// The scalars of one step: learning rate and, where there are, the powers of the betas.
struct Scalars {
  double rate;
  double power1;
  double power2;
};

// The elements of one share. States and parameter are overwritten where they lie: the outputs
// alias the inputs.
template <typename T>
struct Elements {
  T* param;
  const T* grad;
  T* state1;
  T* state2;
  int64_t n;
};

// What an update is: kStates states shaped like the parameter, kPowers of one number each, the
// factors of a step, computed once a parameter, and the loop over the elements.
template <typename T>
struct Sgd {
  using Attrs = SgdAttrs;
  static constexpr uint32_t kStates = 0;
  static constexpr uint32_t kPowers = 0;
  struct Factors {
    T rate;
    T keep;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate),
                   static_cast<T>(1 - scalars.rate * attrs.weight_decay)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    const T* grad = e.grad;
    const T rate = factors.rate;
    const T keep = factors.keep;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) param[i] = param[i] * keep - grad[i] * rate;
  }
};

template <typename T>
struct Momentum {
  using Attrs = MomentumAttrs;
  static constexpr uint32_t kStates = 1;
  static constexpr uint32_t kPowers = 0;
  struct Factors {
    T rate;
    T mu;
    bool nesterov;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate), static_cast<T>(attrs.mu), attrs.nesterov};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* velocity = e.state1;
    const T* grad = e.grad;
    const T rate = factors.rate;
    const T mu = factors.mu;
    const bool nesterov = factors.nesterov;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T next = velocity[i] * mu + grad[i];
      const T step = nesterov ? next * mu + grad[i] : next;
      velocity[i] = next;
      param[i] -= step * rate;
    }
  }
};

template <typename T>
struct Adam {
  using Attrs = AdamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kPowers = 2;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;  // 1 - beta1
    T rest2;
    T epsilon;
    T rate;
    T keep;
  };
  // Both corrections of the bias are taken out of the loop over the elements.
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    const double correction = std::sqrt(1 - scalars.power2);
    return Factors{static_cast<T>(attrs.beta1),
                   static_cast<T>(attrs.beta2),
                   static_cast<T>(1 - attrs.beta1),
                   static_cast<T>(1 - attrs.beta2),
                   static_cast<T>(attrs.epsilon * correction),
                   static_cast<T>(scalars.rate * correction / (1 - scalars.power1)),
                   static_cast<T>(1 - scalars.rate * attrs.weight_decay.value_or(0))};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* moment1 = e.state1;
    T* moment2 = e.state2;
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T first = moment1[i] * f.beta1 + grad[i] * f.rest1;
      const T second = moment2[i] * f.beta2 + grad[i] * grad[i] * f.rest2;
      const T step = first / (std::sqrt(second) + f.epsilon) * f.rate;
      moment1[i] = first;
      moment2[i] = second;
      param[i] = param[i] * f.keep - step;
    }
  }
};

double ReadScalar(const opwright::InputTensor& tensor) {
  return tensor.dtype().bits == 64 ? *tensor.data<double>()
                                   : static_cast<double>(*tensor.data<float>());
}

// NumPy multiplies in the dtype of the power.
void AdvancePower(const opwright::InputTensor& power, const opwright::OutputTensor& next,
                  double beta) {
  if (power.dtype().bits == 64) {
    *next.data<double>() = *power.data<double>() * beta;
  } else {
    *next.data<float>() = *power.data<float>() * static_cast<float>(beta);
  }
}

// Inputs param, grad, learning_rate, the states, the powers; outputs all but grad and
// learning_rate, in the same order. One parameter, or lists of equal length: an optimizer, or the
// operator that updates many parameters in one step.
template <typename Rule, typename T>
struct UpdateKernel {
  using Attrs = typename Rule::Attrs;
  using Factors = typename Rule::Factors;
  static constexpr uint32_t kFirstState = 3;
  static constexpr uint32_t kFirstPower = kFirstState + Rule::kStates;

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
    // All powers are read before any thread may advance one.
    auto* factors = ctx.workspace<Factors>();
    Scalars scalars{ReadScalar(ctx.input(2)), 0, 0};
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      if constexpr (Rule::kPowers > 0) {
        scalars.power1 = ReadScalar(ctx.input(kFirstPower, i));
        scalars.power2 = ReadScalar(ctx.input(kFirstPower + 1, i));
      }
      factors[i] = Rule::FactorsOf(attrs, scalars);
    }
    const auto n_shares = static_cast<int32_t>(shares_.size());
    Parallel(n_shares, [&](int32_t thread, int32_t threads) {
      for (int32_t owner = thread; owner < n_shares; owner += threads) {
        for (const UpdateShare& share : shares_[static_cast<size_t>(owner)]) {
          Rule::Update(factors[share.parameter], ElementsOf(ctx, share));
        }
      }
    });
    if constexpr (Rule::kPowers > 0) {
      for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
        AdvancePower(ctx.input(kFirstPower, i), ctx.output(1 + Rule::kStates, i), attrs.beta1);
        AdvancePower(ctx.input(kFirstPower + 1, i), ctx.output(2 + Rule::kStates, i), attrs.beta2);
      }
    }
    return opwright::Status::Ok();
  }

  static Elements<T> ElementsOf(const opwright::RunContext& ctx, const UpdateShare& share) {
    const uint32_t i = share.parameter;
    Elements<T> elements{};
    elements.param = static_cast<T*>(ctx.output(0, i).raw()) + share.begin;
    elements.grad = static_cast<const T*>(ctx.input(1, i).raw()) + share.begin;
    if constexpr (Rule::kStates > 0) {
      elements.state1 = static_cast<T*>(ctx.output(1, i).raw()) + share.begin;
    }
    if constexpr (Rule::kStates > 1) {
      elements.state2 = static_cast<T*>(ctx.output(2, i).raw()) + share.begin;
    }
    elements.n = share.end - share.begin;
    return elements;
  }

  std::vector<std::vector<UpdateShare>> shares_;
};

template <typename T>
struct SgdKernel : UpdateKernel<Sgd<T>, T> {};
template <typename T>
struct MomentumKernel : UpdateKernel<Momentum<T>, T> {};
template <typename T>
struct AdamKernel : UpdateKernel<Adam<T>, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sgd", "cpu", opwright_cpu::SgdKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("momentum", "cpu", opwright_cpu::MomentumKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("adam", "cpu", opwright_cpu::AdamKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("adamw", "cpu", opwright_cpu::AdamKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("std.multi_sgd", "cpu", opwright_cpu::SgdKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("std.multi_momentum", "cpu", opwright_cpu::MomentumKernel, float,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("std.multi_adam", "cpu", opwright_cpu::AdamKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("std.multi_adamw", "cpu", opwright_cpu::AdamKernel, float, double);
