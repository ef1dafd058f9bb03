// sgd, momentum, lion, sparse_sgd and sparse_momentum.
#include <opwright/functors.h>

#include "optimizers/attributes.h"
#include "optimizers/sparse_update.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <typename T>
struct Sgd {
  using Attrs = SgdAttrs;
  static constexpr uint32_t kStates = 0;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rate;
    T keep;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate),
                   static_cast<T>(1 - scalars.rate * attrs.weight_decay.value_or(0))};
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
  static constexpr uint32_t kScalars = 0;
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
    T* velocity = e.states[0];
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
struct Lion {
  using Attrs = LionAttrs;
  static constexpr uint32_t kStates = 1;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T beta1;
    T beta2;
    T rest1;  // 1 - beta1
    T rest2;
    T rate;
    T keep;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{
        static_cast<T>(attrs.beta1),     static_cast<T>(attrs.beta2),
        static_cast<T>(1 - attrs.beta1), static_cast<T>(1 - attrs.beta2),
        static_cast<T>(scalars.rate),    static_cast<T>(1 - scalars.rate * attrs.weight_decay)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* moment = e.states[0];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T direction = moment[i] * f.beta1 + grad[i] * f.rest1;
      moment[i] = moment[i] * f.beta2 + grad[i] * f.rest2;
      param[i] = param[i] * f.keep - functors::Sign(direction) * f.rate;
    }
  }
};

template <typename T>
struct SgdKernel : UpdateKernel<Sgd<T>, T> {};
template <typename T>
struct MomentumKernel : UpdateKernel<Momentum<T>, T> {};
template <typename T>
struct LionKernel : UpdateKernel<Lion<T>, T> {};
template <typename T>
struct SparseSgdKernel : SparseUpdateKernel<Sgd, T> {};
template <typename T>
struct SparseMomentumKernel : SparseUpdateKernel<Momentum, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_UPDATE("sgd", opwright_cpu::SgdKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("momentum", opwright_cpu::MomentumKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("lion", opwright_cpu::LionKernel);
OPWRIGHT_CPU_REGISTER_SPARSE_UPDATE("sparse_sgd", opwright_cpu::SparseSgdKernel);
OPWRIGHT_CPU_REGISTER_SPARSE_UPDATE("sparse_momentum", opwright_cpu::SparseMomentumKernel);
