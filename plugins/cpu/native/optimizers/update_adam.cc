// adam, adamw and sparse_adam.
#include "optimizers/attributes.h"
#include "optimizers/sparse_update.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct Adam {
  using Attrs = AdamAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 2;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;  // 1 - beta1
    T rest2;
    T epsilon;
    T rate;
    T keep;
  };
  // Both bias corrections are hoisted out of the loop over the elements.
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    const double correction = std::sqrt(1 - scalars.at[1]);
    return Factors{static_cast<T>(attrs.beta1),
                   static_cast<T>(attrs.beta2),
                   static_cast<T>(1 - attrs.beta1),
                   static_cast<T>(1 - attrs.beta2),
                   static_cast<T>(attrs.epsilon * correction),
                   static_cast<T>(scalars.rate * correction / (1 - scalars.at[0])),
                   static_cast<T>(1 - scalars.rate * attrs.weight_decay.value_or(0))};
  }
  template <typename P>
  static P Next(const Attrs& attrs, uint32_t which, P power, const Scalars&) {
    return power * static_cast<P>(which == 0 ? attrs.beta1 : attrs.beta2);
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
      const T step = first / (std::sqrt(second) + f.epsilon) * f.rate;
      moment1[i] = first;
      moment2[i] = second;
      param[i] = param[i] * f.keep - step;
    }
  }
};

template <typename T>
struct AdamKernel : UpdateKernel<Adam<T>, T> {};
template <typename T>
struct SparseAdamKernel : SparseUpdateKernel<Adam, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_UPDATE("adam", opwright_cpu::AdamKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("adamw", opwright_cpu::AdamKernel);
OPWRIGHT_CPU_REGISTER_SPARSE_UPDATE("sparse_adam", opwright_cpu::SparseAdamKernel);
