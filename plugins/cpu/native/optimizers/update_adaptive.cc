// adagrad, adadelta, rmsprop and sparse_adagrad.
#include "optimizers/attributes.h"
#include "optimizers/sparse_update.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct Adagrad {
  using Attrs = EpsilonAttrs;
  static constexpr uint32_t kStates = 1;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rate;
    T epsilon;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate), static_cast<T>(attrs.epsilon)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* squares = e.states[0];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T sum = squares[i] + grad[i] * grad[i];
      squares[i] = sum;
      param[i] -= grad[i] / (std::sqrt(sum) + f.epsilon) * f.rate;
    }
  }
};

template <typename T>
struct Adadelta {
  using Attrs = RhoAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rho;
    T rest;  // 1 - rho
    T epsilon;
    T rate;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(attrs.rho), static_cast<T>(1 - attrs.rho),
                   static_cast<T>(attrs.epsilon), static_cast<T>(scalars.rate)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* mean_square = e.states[0];
    T* mean_update = e.states[1];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T square = mean_square[i] * f.rho + grad[i] * grad[i] * f.rest;
      const T change =
          std::sqrt(mean_update[i] + f.epsilon) / std::sqrt(square + f.epsilon) * grad[i];
      mean_square[i] = square;
      mean_update[i] = mean_update[i] * f.rho + change * change * f.rest;
      param[i] -= change * f.rate;
    }
  }
};

// Unused states are null.
template <typename T>
struct Rmsprop {
  using Attrs = RmspropAttrs;
  static constexpr uint32_t kStates = 3;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rho;
    T rest;
    T epsilon;
    T rate;
    T momentum;
    bool is_centered;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(attrs.rho),      static_cast<T>(1 - attrs.rho),
                   static_cast<T>(attrs.epsilon),  static_cast<T>(scalars.rate),
                   static_cast<T>(attrs.momentum), attrs.centered};
  }
  template <bool kHasMean, bool kHasVelocity>
  OPWRIGHT_CPU_CLONES static void UpdateAll(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* mean_square = e.states[0];
    T* mean_grad = e.states[1];
    T* velocity = e.states[2];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T square = mean_square[i] * f.rho + grad[i] * grad[i] * f.rest;
      mean_square[i] = square;
      T variance = square;
      if constexpr (kHasMean) {
        const T mean = mean_grad[i] * f.rho + grad[i] * f.rest;
        mean_grad[i] = mean;
        variance = square - mean * mean;
        variance = variance < T(0) ? T(0) : variance;  // rounding errors of equal gradients
      }
      T step = grad[i] / (std::sqrt(variance) + f.epsilon);
      if constexpr (kHasVelocity) {
        step = velocity[i] * f.momentum + step;
        velocity[i] = step;
      }
      param[i] -= step * f.rate;
    }
  }
  static void Update(const Factors& factors, const Elements<T>& e) {
    const bool has_mean = factors.is_centered && e.states[1] != nullptr;
    const bool has_velocity = e.states[2] != nullptr;
    if (has_mean && has_velocity) return UpdateAll<true, true>(factors, e);
    if (has_mean) return UpdateAll<true, false>(factors, e);
    if (has_velocity) return UpdateAll<false, true>(factors, e);
    UpdateAll<false, false>(factors, e);
  }
};

template <typename T>
struct AdagradKernel : UpdateKernel<Adagrad<T>, T> {};
template <typename T>
struct SparseAdagradKernel : SparseUpdateKernel<Adagrad, T> {};
template <typename T>
struct AdadeltaKernel : UpdateKernel<Adadelta<T>, T> {};
template <typename T>
struct RmspropKernel : UpdateKernel<Rmsprop<T>, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_UPDATE("adagrad", opwright_cpu::AdagradKernel);
OPWRIGHT_CPU_REGISTER_SPARSE_UPDATE("sparse_adagrad", opwright_cpu::SparseAdagradKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("adadelta", opwright_cpu::AdadeltaKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("rmsprop", opwright_cpu::RmspropKernel);
