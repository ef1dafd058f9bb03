// Measures errors of elementary functions in units in the last place, over a dense sweep and edge
// cases. Prints the errors and fails if an error exceeds its bound.
#include <opwright/functors.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

namespace functors = opwright::functors;

constexpr double kWrong = 1e30;  // error of an unexpected or a missing infinity or NaN

template <typename T>
double UlpsBetween(T got, long double exact) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(exact)) return std::isnan(got) ? 0 : kWrong;
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded)) return got == rounded ? 0 : kWrong;
  if (!std::isfinite(got)) return kWrong;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, last));
}

template <typename T>
std::vector<T> MakeSweep() {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::vector<T> sweep = {T(0),
                          T(-0.0),
                          T(1),
                          T(-1),
                          Limits::max(),
                          -Limits::max(),
                          Limits::min(),
                          -Limits::min(),
                          Limits::infinity(),
                          -Limits::infinity(),
                          Limits::denorm_min(),
                          -Limits::denorm_min(),
                          Limits::quiet_NaN(),
                          T(0.75),
                          T(88.72283),
                          T(88.72284),
                          T(709.782712893384),
                          T(709.7827128933841),
                          T(-87.5),
                          T(-103.5),
                          T(-708.5),
                          T(-745.1)};
  std::mt19937_64 random(20);
  for (int i = 0; i < 200000; ++i) {  // any bits: all exponents, denormals, NaN
    const Bits bits = static_cast<Bits>(random());
    T x;
    std::memcpy(&x, &bits, sizeof(x));
    sweep.push_back(x);
  }
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (double range : {1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 105.0, 750.0}) {
    for (int i = 0; i < 60000; ++i) sweep.push_back(static_cast<T>(uniform(random) * range));
  }
  for (int i = 0; i < 60000; ++i) sweep.push_back(static_cast<T>(1 + uniform(random) * 1e-3));
  return sweep;
}

bool all_within = true;

template <typename T, typename Function, typename Exact>
void Check(const char* name, double bound, const std::vector<T>& sweep, const Function& function,
           const Exact& exact) {
  double worst = 0;
  T at = 0;
  for (T x : sweep) {
    const double error = UlpsBetween<T>(function(x), exact(static_cast<long double>(x)));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  const bool within = worst <= bound;
  all_within = all_within && within;
  std::printf("%s %s: %.3f ulp at %.17g, bound %.1f%s\n", name,
              sizeof(T) == sizeof(float) ? "float" : "double", worst, static_cast<double>(at),
              bound, within ? "" : "  FAILED");
}

long double ExactSigmoid(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

template <typename T>
void CheckTrigonometry(const std::vector<T>& sweep) {
  using Wide = long double;
  std::vector<T> angles = sweep;
  for (int64_t n = 1; n < 700000; n = n + 1 + n / 50) {  // numbers near a multiple of pi / 2
    const T multiple =
        static_cast<T>(static_cast<Wide>(n) * 1.57079632679489661923132169163975144L);
    for (T x : {multiple, std::nextafter(multiple, T(0)), -multiple}) angles.push_back(x);
  }
  Check("Sin", 1, angles, functors::Sin<T>, [](Wide x) { return std::sin(x); });
  Check("Cos", 1, angles, functors::Cos<T>, [](Wide x) { return std::cos(x); });
  Check("Tan", 2.5, angles, functors::Tan<T>, [](Wide x) { return std::tan(x); });
  Check("Asin", 2.5, sweep, functors::Asin<T>, [](Wide x) { return std::asin(x); });
  Check("Acos", 2.5, sweep, functors::Acos<T>, [](Wide x) { return std::acos(x); });
  Check("Atan", 2.5, sweep, functors::Atan<T>, [](Wide x) { return std::atan(x); });
  for (const double other : {0.0, -0.0, 1.0, -1.5, 1e-30, -1e30, HUGE_VAL, -HUGE_VAL}) {
    const T second = static_cast<T>(other);
    Check(
        "Atan2", 3, sweep, [=](T y) { return functors::Atan2(y, second); },
        [=](Wide y) { return std::atan2(y, static_cast<Wide>(second)); });
    Check(
        "Atan2", 3, sweep, [=](T x) { return functors::Atan2(second, x); },
        [=](Wide x) { return std::atan2(static_cast<Wide>(second), x); });
  }
}

template <typename T>
void CheckAll() {
  using Wide = long double;
  const std::vector<T> sweep = MakeSweep<T>();
  std::vector<T> not_above_0;
  for (T x : sweep) {
    if (!(x > 0)) not_above_0.push_back(x);
  }
  Check("Exp", 1.1, sweep, functors::Exp<T>, [](Wide x) { return std::exp(x); });
  Check("ExpNonPositive", 1.1, not_above_0, functors::ExpNonPositive<T>,
        [](Wide x) { return std::exp(x); });
  Check("Expm1", 2.2, sweep, functors::Expm1<T>, [](Wide x) { return std::expm1(x); });
  Check("Log", 1.1, sweep, functors::Log<T>, [](Wide x) { return std::log(x); });
  Check("Log1p", 1.1, sweep, functors::Log1p<T>, [](Wide x) { return std::log1p(x); });
  std::vector<T> up_to_1;
  for (T x : sweep) {
    if (!(x < 0) && !(x > 1)) up_to_1.push_back(x);
  }
  Check(
      "Log1pUpTo1", 3, up_to_1, [](T x) { return functors::Log1pUpTo1(x); },
      [](Wide x) { return std::log1p(x); });
  Check("Sqrt", 0.5, sweep, functors::Sqrt<T>, [](Wide x) { return std::sqrt(x); });
  Check("Tanh", 3, sweep, functors::Tanh<T>, [](Wide x) { return std::tanh(x); });
  Check("Sigmoid", 3, sweep, functors::Sigmoid<T>, ExactSigmoid);
  Check("Erf", 3.5, sweep, functors::Erf<T>, [](Wide x) { return std::erf(x); });
  Check("Erfc", 5, sweep, functors::Erfc<T>, [](Wide x) { return std::erfc(x); });
  Check("Log2", 2.5, sweep, functors::Log2<T>, [](Wide x) { return std::log2(x); });
  Check("Rsqrt", 1.5, sweep, functors::Rsqrt<T>, [](Wide x) { return 1 / std::sqrt(x); });
  Check("Sinh", 2.5, sweep, functors::Sinh<T>, [](Wide x) { return std::sinh(x); });
  Check("Cosh", 2.5, sweep, functors::Cosh<T>, [](Wide x) { return std::cosh(x); });
  CheckTrigonometry(sweep);
  // In the tails, the rounding error of the square dominates.
  for (const double range : {1.0, 4.0, 15.0}) {
    std::vector<T> within;
    for (T x : sweep) {
      if (!(std::fabs(x) > range)) within.push_back(x);
    }
    Check(
        "NormalCdf", 6 + 1.5 * range * range, within, [](T x) { return functors::NormalCdf(x); },
        [](Wide x) { return std::erfc(-x * std::sqrt(0.5L)) / 2; });
  }
}

}  // namespace

int main() {
  CheckAll<float>();
  CheckAll<double>();
  return all_within ? 0 : 1;
}
