// The logarithm of the gamma function, its derivatives, and the inverse of erf. The derivatives are
// computed in double, even for float. The functions do not branch, so loops are vectorized.
//
//   LogGamma            within 8 ulp for x > 0
//   Digamma             within 12 ulp for x > 0
//   Polygamma           within 5 ulp for x > 0 and orders up to 5
//   ErfInv              within 4 ulp
//
// These errors were measured against mpmath. Arguments up to 0 are far arguments, for which the C
// library and reflection formulas are used. A reflection formula adds two terms, and its error is
// relative to the larger term.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_SPECIAL_H_
#define OPWRIGHT_CPU_ELEMENTWISE_SPECIAL_H_

#include <opwright/functors.h>

#include <cmath>
#include <limits>

#include "common/clones.h"

namespace opwright_cpu {

namespace functors = opwright::functors;

constexpr double kPi = 3.14159265358979323846;
constexpr int kGammaShift = 10;  // argument from which the asymptotic series have full precision

// Computes ln(gamma(2 + u)) / u for |u| <= 1 / 2 by a nearly minimax polynomial.
OPWRIGHT_CPU_INLINE double LogGammaNearTwo(double u) {
  constexpr double c[] = {0.42278433509846713,    0.3224670334241132,      -0.06735230105319563,
                          0.02058080842778338,    -0.007385551028935545,   0.002890510330865901,
                          -0.0011927539009983087, 0.0005096695196526673,   -0.00022315497746292723,
                          9.945761692157133e-05,  -4.4923727564247656e-05, 2.050601970174762e-05,
                          -9.45628851510172e-06,  4.3828545383846665e-06,  -1.9743106888421067e-06,
                          9.242852225162277e-07,  -5.811277768921246e-07,  2.7475390051909663e-07};
  return functors::detail::Polynomial(u, c);
}
OPWRIGHT_CPU_INLINE float LogGammaNearTwo(float u) {
  constexpr float c[] = {0.422784335f,     0.322467033f,    -0.0673523011f,   0.0205808084f,
                         -0.00738555103f,  0.00289051033f,  -0.0011927539f,   0.00050966952f,
                         -0.000223154977f, 9.94576169e-05f, -4.49237276e-05f, 2.05060197e-05f};
  return functors::detail::Polynomial(u, c);
}

// Requires x > 0. Below 10, the recurrence moves x to [1.5, 2.5), where the root at 2 is a factor.
// The root at 1 comes from this factor and from ln(x); neither is rounded to 0.
template <typename T>
OPWRIGHT_CPU_INLINE T LogGamma(T x) {
  const bool is_low = x < T(1.5);
  const T low_product = x < T(0.5) ? x * (x + T(1)) : x;
  const T low_distance = x < T(0.5) ? x : x - T(1);  // exact distance of x + 2 or x + 1 from 2
  T t = x;
  T product = is_low ? low_product : T(1);
#pragma GCC unroll 16
  for (int k = 0; k < 8; ++k) {
    const bool is_high = (t >= T(2.5)) & (x < T(10));
    const T below = t - T(1);
    product = is_high ? product * below : product;
    t = is_high ? below : t;
  }
  const bool is_near = x < T(10);
  const T logarithm = functors::Log(is_near ? product : x);
  const T distance = is_low ? low_distance : t - T(2);
  const T near = LogGammaNearTwo(is_near ? distance : T(0)) * distance;
  const T signed_logarithm = is_low ? -logarithm : logarithm;
  constexpr T series[] = {T(1.0 / 12),   T(-1.0 / 360),      T(1.0 / 1260), T(-1.0 / 1680),
                          T(1.0 / 1188), T(-691.0 / 360360), T(1.0 / 156)};
  const T r = T(1) / x;
  const T tail = functors::detail::Polynomial(r * r, series) * r;
  // The constant is (ln(2 pi) - 1) / 2. This form avoids a difference of infinities for infinite x.
  const T far = (x - T(0.5)) * (logarithm - T(1)) + (T(0.41893853320467274178) + tail);
  return is_near ? near + signed_logarithm : far;
}

// Requires x > 0. Near the root, which is not representable in double, the distance to the root is
// a factor.
OPWRIGHT_CPU_INLINE double Digamma(double x) {
  constexpr double near[] = {
      0.9510558760318328,     -0.4236274212814573,    0.24054248424078478,
      -0.14840492305485808,   0.09498872445354183,    -0.06192213319072707,
      0.0407608338843387,     -0.026975800029253667,  0.017907250563619775,
      -0.011908146513976738,  0.007926972735646359,   -0.005280903066090605,
      0.0035187504361950134,  -0.002337552647103118,  0.0015580749137213761,
      -0.0010776863967234226, 0.0007184107969046378,  -0.00035476352053371977,
      0.00023650171719339814, -0.0003783907897248858, 0.0002522590506964885};
  constexpr double kRoot = 1.4616321449683622;
  constexpr double kRootRest = 9.549995429965697e-17;
  const bool is_near = (x >= 1.0) & (x <= 2.0);
  const double t = is_near ? x : 1.5;
  const double at_root = (t - kRoot - kRootRest) * functors::detail::Polynomial(t - 1.5, near);
  // The terms of the recurrence are combined into one quotient.
  const bool is_small = x < kGammaShift;
  const double small = is_small ? x : 1.0;
  double numerator = 0.0, denominator = 1.0;
#pragma GCC unroll 16
  for (int k = 0; k < kGammaShift; ++k) {
    const double y = small + k;
    numerator = numerator * y + denominator;
    denominator = denominator * y;
  }
  const double y = is_small ? x + kGammaShift : x;
  const double steps = is_small ? numerator / denominator : 0.0;
  constexpr double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const double r = 1.0 / y;
  const double tail = functors::detail::Polynomial(r * r, series) * (r * r) + r * 0.5;
  const double apart = functors::Log(y) - tail - steps;
  return is_near ? at_root : apart;
}

OPWRIGHT_CPU_INLINE double WholePower(double x, int exponent) {
  double power = 1.0;
  for (int i = 0; i < exponent; ++i) power *= x;
  return power;
}

// Computes (-1)**(n + 1) n! zeta(n + 1, x) for x > 0 and n > 0. The tail of the zeta sum is
// computed by the Euler-Maclaurin formula.
OPWRIGHT_CPU_INLINE double Polygamma(double x, int n) {
  constexpr double series[] = {1.0 / 12,
                               -1.0 / 720,
                               1.0 / 30240,
                               -1.0 / 1209600,
                               1.0 / 47900160,
                               -691.0 / 1307674368000.0,
                               1.0 / 74724249600.0,
                               -3617.0 / 10670622842880000.0};
  const int steps = kGammaShift + n;
  double total = 0.0, factorial = 1.0;
  for (int k = 0; k < steps; ++k) total += WholePower(1.0 / (x + k), n + 1);
  for (int k = 2; k <= n; ++k) factorial *= k;
  const double y = x + steps;
  const double r = 1.0 / y;
  const double power = WholePower(r, n);
  double rest = power / n + power * r * 0.5;
  double rising = n + 1.0, term = power * r * r;
#pragma GCC unroll 16
  for (int k = 0; k < 8; ++k) {
    rest += series[k] * rising * term;
    rising *= (n + 2.0 * k + 2) * (n + 2.0 * k + 3);
    term *= r * r;
  }
  const double size = factorial * (total + rest);
  return n % 2 == 0 ? -size : size;
}

template <typename T, int N, int M>
OPWRIGHT_CPU_INLINE T Ratio(T x, const T (&above)[N], const T (&below)[M]) {
  return functors::detail::Polynomial(x, above) / functors::detail::Polynomial(x, below);
}

// Algorithm AS 241 (Wichura, 1988) for the inverse of the normal distribution at (1 + x) / 2. Float
// uses PPND7; its far tail begins beyond the range of float. Double uses PPND16.
OPWRIGHT_CPU_INLINE float ErfInv(float x) {
  constexpr float middle_above[] = {3.3871327179f, 50.434271938f, 159.29113202f, 59.109374720f};
  constexpr float middle_below[] = {1.0f, 17.895169469f, 78.757757664f, 67.187563600f};
  constexpr float tail_above[] = {1.4234372777f, 2.7568153900f, 1.3067284816f, 0.17023821103f};
  constexpr float tail_below[] = {1.0f, 0.73700164250f, 0.12021132975f};
  const float size = std::fabs(x);
  const float half = x * 0.5f;
  const float middle = half * Ratio(0.180625f - half * half, middle_above, middle_below);
  const float root = functors::Sqrt(-functors::Log((1.0f - size) * 0.5f));
  const float tail = Ratio(root - 1.6f, tail_above, tail_below);
  const float outer = size == 1.0f ? std::numeric_limits<float>::infinity() : tail;
  const float quantile = size <= 0.85f ? middle : std::copysign(outer, x);
  return quantile * 0.70710678118654752440f;
}
OPWRIGHT_CPU_INLINE double ErfInv(double x) {
  constexpr double middle_above[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                     1.9715909503065514427e3, 1.3731693765509461125e4,
                                     4.5921953931549871457e4, 6.7265770927008700853e4,
                                     3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr double middle_below[] = {1.0,
                                     4.2313330701600911252e1,
                                     6.8718700749205790830e2,
                                     5.3941960214247511077e3,
                                     2.1213794301586595867e4,
                                     3.9307895800092710610e4,
                                     2.8729085735721942674e4,
                                     5.2264952788528545610e3};
  constexpr double tail_above[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                   5.76949722146069140550e0,  3.64784832476320460504e0,
                                   1.27045825245236838258e0,  2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double tail_below[] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
  constexpr double far_above[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double far_below[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double size = std::fabs(x);
  const double half = x * 0.5;
  const double middle = half * Ratio(0.180625 - half * half, middle_above, middle_below);
  const double root = functors::Sqrt(-functors::Log((1.0 - size) * 0.5));
  const double near_tail = Ratio(root - 1.6, tail_above, tail_below);
  const double far_tail = Ratio(root - 5.0, far_above, far_below);
  const double tail = root <= 5.0 ? near_tail : far_tail;
  const double outer = size == 1.0 ? std::numeric_limits<double>::infinity() : tail;
  const double quantile = size <= 0.85 ? middle : std::copysign(outer, x);
  return quantile * 0.70710678118654752440;
}

// ---- arguments up to 0

double LogGammaFar(double x);
double DigammaFar(double x);
double PolygammaFar(double x, int n);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_SPECIAL_H_
