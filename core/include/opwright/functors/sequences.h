// Log-space arithmetic of operators on sequences. Included after opwright/functors.h.
#ifndef OPWRIGHT_FUNCTORS_SEQUENCES_H_
#define OPWRIGHT_FUNCTORS_SEQUENCES_H_

namespace opwright {
namespace functors {

// The logarithm of probability 0, -inf.
#if defined(__CUDACC_RTC__)
OPWRIGHT_FUNCTOR double NeverLog() { return __longlong_as_double(0xfff0000000000000ll); }
#else
constexpr OPWRIGHT_FUNCTOR double NeverLog() { return -__builtin_inf(); }
#endif

// Returns log(e**a + e**b + e**c), or -inf if all three are -inf.
OPWRIGHT_FUNCTOR double LogOfSum(double a, double b, double c) {
  const double ab = a > b ? a : b;
  const double top = ab > c ? ab : c;
  const double base = top == NeverLog() ? 0.0 : top;
  return base + Log(Exp(a - base) + Exp(b - base) + Exp(c - base));
}

// Below this, a sum of products has lost precision by underflow, and is replaced by a sum in log
// space.
constexpr double kLeastSum = 1e-30;

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_SEQUENCES_H_
