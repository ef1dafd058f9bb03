// proximal_gd, proximal_adagrad and ftrl, whose penalties can set elements to exactly 0.
#include "optimizers/attributes.h"
#include "optimizers/update.h"

namespace opwright_cpu {
namespace {

// Returns the minimizer of both penalties plus the squared distance to `moved`, weighted by 1 /
// rate. `bound` is rate * l1, and `divisor` is 1 + rate * l2.
template <typename T>
OPWRIGHT_CPU_INLINE T Shrink(T moved, T bound, T divisor) {
  const T above = moved < -bound ? -bound : moved;
  return (moved - (above > bound ? bound : above)) / divisor;
}

template <typename T>
struct ProximalGd {
  using Attrs = PenaltyAttrs;
  static constexpr uint32_t kStates = 0;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rate;
    T bound;
    T divisor;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate), static_cast<T>(scalars.rate * attrs.l1),
                   static_cast<T>(1 + scalars.rate * attrs.l2)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      param[i] = Shrink(param[i] - grad[i] * f.rate, f.bound, f.divisor);
    }
  }
};

template <typename T>
struct ProximalAdagrad {
  using Attrs = PenaltyAttrs;
  static constexpr uint32_t kStates = 1;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rate;
    T l1;
    T l2;
    T epsilon;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate), static_cast<T>(attrs.l1), static_cast<T>(attrs.l2),
                   static_cast<T>(attrs.epsilon.value_or(0))};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* squares = e.states[0];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T sum = squares[i] + grad[i] * grad[i];
      const T rate = f.rate / (std::sqrt(sum) + f.epsilon);
      squares[i] = sum;
      param[i] = Shrink(param[i] - grad[i] * rate, rate * f.l1, rate * f.l2 + T(1));
    }
  }
};

template <typename T>
struct Ftrl {
  using Attrs = PenaltyAttrs;
  static constexpr uint32_t kStates = 2;
  static constexpr uint32_t kScalars = 0;
  struct Factors {
    T rate;
    T l1;
    T l2_twice;
  };
  static Factors FactorsOf(const Attrs& attrs, const Scalars& scalars) {
    return Factors{static_cast<T>(scalars.rate), static_cast<T>(attrs.l1),
                   static_cast<T>(2 * attrs.l2)};
  }
  OPWRIGHT_CPU_CLONES static void Update(const Factors& factors, const Elements<T>& e) {
    T* param = e.param;
    T* squares = e.states[0];
    T* linear = e.states[1];
    const T* grad = e.grad;
    const Factors f = factors;
#pragma GCC ivdep
    for (int64_t i = 0; i < e.n; ++i) {
      const T sum = squares[i] + grad[i] * grad[i];
      const T root = std::sqrt(sum);
      const T moved = linear[i] + (grad[i] - (root - std::sqrt(squares[i])) / f.rate * param[i]);
      squares[i] = sum;
      linear[i] = moved;
      const T above = moved < -f.l1 ? -f.l1 : moved;
      const T outside = (above > f.l1 ? f.l1 : above) - moved;
      const T next = outside / (root / f.rate + f.l2_twice);
      param[i] = std::abs(moved) <= f.l1 ? T(0) : next;
    }
  }
};

template <typename T>
struct ProximalGdKernel : UpdateKernel<ProximalGd<T>, T> {};
template <typename T>
struct ProximalAdagradKernel : UpdateKernel<ProximalAdagrad<T>, T> {};
template <typename T>
struct FtrlKernel : UpdateKernel<Ftrl<T>, T> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_UPDATE("proximal_gd", opwright_cpu::ProximalGdKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("proximal_adagrad", opwright_cpu::ProximalAdagradKernel);
OPWRIGHT_CPU_REGISTER_UPDATE("ftrl", opwright_cpu::FtrlKernel);
