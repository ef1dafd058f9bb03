// adamax, nadam and radam.
#include <opwright/functors.h>
#include <cmath>

#include "optimizers/attributes.h"
#include "optimizers/update.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <typename T>
struct Adamax {
  using Attrs = AdamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 1;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;
    T epsilon;
    T rate;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(attrs.beta1), static_cast<T>(attrs.beta2),
                   static_cast<T>(1 - attrs.beta1), static_cast<T>(attrs.epsilon),
                   static_cast<T>(scalars.rate / (1 - scalars.at[0]))};
  }
  template <typename P>
  static P Next(const Attrs& attrs, uint32_t, P power, const Scalars&) {
    return power * static_cast<P>(attrs.beta1);
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* moment = e.states[0];
    T* norm = e.states[1];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T first = moment[i] * f.beta1 + grad[i] * f.rest1;
      const T largest = functors::Maximum(norm[i] * f.beta2, std::abs(grad[i]) + f.epsilon);
      moment[i] = first;
      norm[i] = largest;
      param[i] -= first / largest * f.rate;
    }
  }
};

// Computes 1 - beta**step with expm1; a subtraction would lose precision if beta is near 1.
double RestOfPower(double beta, double step) {
  return beta > 0 ? -std::expm1(step * std::log(beta)) : 1;
}

// Returns mu, which rises from beta1 / 2 to beta1.
double MuOf(const NadamAttrs& attrs, double step) {
  return attrs.beta1 * (1 - 0.5 * std::pow(0.96, step * attrs.momentum_decay));
}

template <typename T>
struct Nadam {
  using Attrs = NadamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 2;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;
    T rest2;
    T epsilon;
    T of_grad;
    T of_moment;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    const double mu = MuOf(attrs, scalars.at[0]);
    const double next_mu = MuOf(attrs, scalars.at[0] + 1);
    const double rest = RestOfPower(attrs.beta2, scalars.at[0]);
    const double correction = std::sqrt(rest < 0 ? 0 : rest);
    const double product = scalars.at[1] * mu;
    const double rate = scalars.rate * correction;
    return Factors{static_cast<T>(attrs.beta1),
                   static_cast<T>(attrs.beta2),
                   static_cast<T>(1 - attrs.beta1),
                   static_cast<T>(1 - attrs.beta2),
                   static_cast<T>(attrs.epsilon * correction),
                   static_cast<T>(rate * (1 - mu) / (1 - product)),
                   static_cast<T>(rate * next_mu / (1 - product * next_mu))};
  }
  template <typename P>
  static P Next(const Attrs& attrs, uint32_t which, P value, const Scalars& scalars) {
    return which == 0 ? value + P(1) : value * static_cast<P>(MuOf(attrs, scalars.at[0]));
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* moment1 = e.states[0];
    T* moment2 = e.states[1];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T first = moment1[i] * f.beta1 + grad[i] * f.rest1;
      const T second = moment2[i] * f.beta2 + grad[i] * grad[i] * f.rest2;
      moment1[i] = first;
      moment2[i] = second;
      param[i] -= (grad[i] * f.of_grad + first * f.of_moment) / (std::sqrt(second) + f.epsilon);
    }
  }
};

template <typename T>
struct Radam {
  using Attrs = AdamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 1;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;
    T rest2;
    T epsilon;
    T rate;
    bool is_rectified;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    const double step = scalars.at[0];
    const double rest = RestOfPower(attrs.beta2, step);
    const double longest = 2 / (1 - attrs.beta2) - 1;
    const double length = longest - 2 * step * (1 - rest) / rest;
    const double full = (longest - 4) * (longest - 2) * length;
    const double rectified = (length - 4) * (length - 2) * longest;
    double rate = scalars.rate / RestOfPower(attrs.beta1, step);
    if (!(length <= 5)) rate *= std::sqrt(rectified / full * rest);
    return Factors{static_cast<T>(attrs.beta1),
                   static_cast<T>(attrs.beta2),
                   static_cast<T>(1 - attrs.beta1),
                   static_cast<T>(1 - attrs.beta2),
                   static_cast<T>(attrs.epsilon),
                   static_cast<T>(rate),
                   !(length <= 5)};
  }
  template <typename P>
  static P Next(const Attrs&, uint32_t, P step, const Scalars&) {
    return step + P(1);
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* moment1 = e.states[0];
    T* moment2 = e.states[1];
    const T* grad = e.grad;
    const Factors f = factors;
    const bool is_rectified = factors.is_rectified;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T first = moment1[i] * f.beta1 + grad[i] * f.rest1;
      const T second = moment2[i] * f.beta2 + grad[i] * grad[i] * f.rest2;
      const T scaled = first / (std::sqrt(second) + f.epsilon);
      moment1[i] = first;
      moment2[i] = second;
      param[i] -= (is_rectified ? scaled : first) * f.rate;
    }
  }
};

template <typename T>
struct AdamaxKernel : UpdateKernel<Adamax<T>, T> {};
template <typename T>
struct NadamKernel : UpdateKernel<Nadam<T>, T> {};
template <typename T>
struct RadamKernel : UpdateKernel<Radam<T>, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_UPDATE("adamax", opwright_cpu::AdamaxKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("nadam", opwright_cpu::NadamKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("radam", opwright_cpu::RadamKernel);
