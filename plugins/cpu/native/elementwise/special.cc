// Special functions: lgamma and its derivatives, erf, and functions related to erf.
#include "elementwise/special.h"

#include <vector>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"
#include "elementwise/lines.h"
#include "elementwise/ranged.h"

namespace opwright_cpu {

double LogGammaFar(double x) {
  int sign = 0;  // receives the sign that the C library would store in a global variable
  return ::lgamma_r(x, &sign);
}

// Computes psi(x) = psi(1 - x) - pi cot(pi x), with the argument of cot reduced to a period around
// 0.
double DigammaFar(double x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x == 0.0) return std::signbit(x) ? kInfinity : -kInfinity;
  const double turn = x - std::rint(x);
  if (turn == 0.0) return std::numeric_limits<double>::quiet_NaN();
  return Digamma(1.0 - x) - kPi / std::tan(kPi * turn);
}

// Computes derivatives of the reflection formula of DigammaFar. Since cot' = -(1 + cot**2), every
// derivative of cot is a polynomial in cot.
double PolygammaFar(double x, int n) {
  const double turn = x - std::rint(x);
  const double sign = n % 2 == 0 ? 1.0 : -1.0;
  if (turn == 0.0) return -sign * std::numeric_limits<double>::infinity();
  std::vector<double> polynomial = {0.0, 1.0};
  for (int i = 0; i < n; ++i) {
    std::vector<double> next(polynomial.size() + 1, 0.0);
    for (size_t k = 1; k < polynomial.size(); ++k) {
      const double derivative = static_cast<double>(k) * polynomial[k];
      next[k - 1] -= derivative;
      next[k + 1] -= derivative;
    }
    polynomial = next;
  }
  const double cotangent = 1.0 / std::tan(kPi * turn);
  double value = 0.0;
  for (size_t k = polynomial.size(); k-- > 0;) value = value * cotangent + polynomial[k];
  return -std::pow(kPi, n + 1) * value + sign * Polygamma(1.0 - x, n);
}

namespace {

#define OPWRIGHT_CPU_GAMMA_FUNCTION(name, near, far)                             \
  template <typename T>                                                          \
  struct name : Function<T, 1> {                                                 \
    explicit name(const Parameters&) {}                                          \
    OPWRIGHT_CPU_INLINE T operator()(T x) const { return static_cast<T>(near); } \
    static OPWRIGHT_CPU_INLINE bool IsFar(T x) { return x <= T(0); }             \
    static T Far(T x) { return static_cast<T>(far); }                            \
  }
OPWRIGHT_CPU_GAMMA_FUNCTION(LogGammaOf, LogGamma(x), LogGammaFar(x));
OPWRIGHT_CPU_GAMMA_FUNCTION(DigammaOf, Digamma(x), DigammaFar(x));
OPWRIGHT_CPU_FUNCTION_1(ErfcOf, functors::Erfc(x));
OPWRIGHT_CPU_FUNCTION_1(ErfInvOf, ErfInv(x));

// The order is a compile-time constant, so loops are vectorized.
template <int n>
struct PolygammaOfOrder {
  OPWRIGHT_CPU_GAMMA_FUNCTION(Of, Polygamma(x, n), PolygammaFar(x, n));
};

template <typename T>
void PolygammaLoop(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  const int order = static_cast<int>(parameters.first);
  switch (order) {
    case 0:
      return RangedLoop<DigammaOf<T>>(inputs, out, n, parameters);
    case 1:
      return RangedLoop<PolygammaOfOrder<1>::Of<T>>(inputs, out, n, parameters);
    case 2:
      return RangedLoop<PolygammaOfOrder<2>::Of<T>>(inputs, out, n, parameters);
    default:
      break;
  }
  const T* x = static_cast<const T*>(inputs[0]);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const double at = x[i];
    to[i] = static_cast<T>(at <= 0 ? PolygammaFar(at, order) : Polygamma(at, order));
  }
}

Loop SelectPolygamma(DLDataType dtype) {
  if (opwright::SameDtype(dtype, opwright::DtypeOf<float>())) return &PolygammaLoop<float>;
  if (opwright::SameDtype(dtype, opwright::DtypeOf<double>())) return &PolygammaLoop<double>;
  return nullptr;
}

}  // namespace

void AddSpecialFunctions(Functions& functions) {
  AddRangedFunction<LogGammaOf>(functions, "lgamma", 3);
  AddRangedFunction<DigammaOf>(functions, "digamma", 4);
  functions["polygamma"] = {&SelectPolygamma, 1, 12, nullptr};
  AddLongFunction<ErfcOf, OPWRIGHT_CPU_FLOATS>(functions, "erfc", 2);
  AddLongFunction<ErfInvOf, OPWRIGHT_CPU_FLOATS>(functions, "erfinv", 2);
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(lgamma, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(digamma, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(polygamma, UnaryKernel<OrderAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(erfc, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(erfinv, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
