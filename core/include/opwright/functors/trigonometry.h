// Trigonometric functions without branches, included by elementary.h, which explains the bounds.
//
//   Sin Cos                        within 1 ulp
//   Tan Asin Acos Atan             within 2.5 ulp
//   Atan2                          within 3 ulp
//
// A multiple of pi / 2 is subtracted from the arguments of Sin, Cos and Tan, with sufficient
// precision up to kMostTurning. SinNear, CosNear and TanNear are vectorized and valid up to this
// bound; Sin, Cos and Tan call the C library for larger arguments.
#ifndef OPWRIGHT_FUNCTORS_TRIGONOMETRY_H_
#define OPWRIGHT_FUNCTORS_TRIGONOMETRY_H_

namespace opwright {
namespace functors {

constexpr double kMostTurning = 1e6;

namespace detail {

// x = turns * pi / 2 + (rest + low) with |rest| <= pi / 4; `low` is below the last bit of `rest`.
// Only the low bits of `turns`, the number of quarter turns, are valid.
struct Turned {
  double rest;
  double low;
  uint64_t turns;
};

struct Difference {
  double value;
  double lost;
};
// Returns x - y and its rounding error.
OPWRIGHT_FUNCTOR Difference Subtract(double x, double y) {
  const double value = x - y;
  const double part = value - x;
  return {value, (x - (value - part)) - (y + part)};
}

// pi / 2 in parts of 33 bits, so products with up to 20 bits are exact, and the remainder.
constexpr double kQuarter[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                               0x1.b839a252049c1p-104};

OPWRIGHT_FUNCTOR double ShiftedTurns(double x) {
  return x * 0.63661977236758134308 + Format<double>::kRound;
}
OPWRIGHT_FUNCTOR Turned TakeTurns(double x) {
  const double shifted = ShiftedTurns(x);
  const double n = shifted - Format<double>::kRound;
  const Difference first = Subtract(x - n * kQuarter[0], n * kQuarter[1]);
  const Difference second = Subtract(first.value, n * kQuarter[2]);
  const double low = (first.lost + second.lost) - n * kQuarter[3];
  return {second.value, low, BitCast<uint64_t>(shifted)};
}
// (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 with z = r**2, for |r| <= pi / 4.
OPWRIGHT_FUNCTOR double SineTail(double z) {
  constexpr double c[] = {-0.166666666666666646,  0.0083333333333309461,   -0.0001984126983675497,
                          2.75573161006830291e-6, -2.50511314554279474e-8, 1.59181012302741203e-10};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double CosineTail(double z) {
  constexpr double c[] = {0.0416666666666666654,    -0.00138888888888873957,
                          0.0000248015872987634332, -2.75573172705603241e-7,
                          2.08761460246897466e-9,   -1.13826148685563246e-11};
  return Polynomial(z, c);
}

struct SineAndCosine {
  double sine;
  double cosine;
};
OPWRIGHT_FUNCTOR SineAndCosine OfRest(Turned turned) {
  const double r = turned.rest;
  const double z = r * r;
  const double half = 0.5 * z;
  const double high = 1.0 - half;
  const double sine = r + (z * r * SineTail(z) + turned.low * high);
  const double lost = (1.0 - high) - half;
  const double cosine = high + (lost + (z * z * CosineTail(z) - r * turned.low));
  return {sine, cosine};
}

OPWRIGHT_FUNCTOR double WithSignOfTurns(double size, uint64_t turns) {
  return BitCast<double>(BitCast<uint64_t>(size) ^ ((turns & 2) << 62));
}

// Returns sin(x + turns * pi / 2): the sine or cosine of the rest, negated if the second bit of the
// total turns is set.
OPWRIGHT_FUNCTOR double SineOfTurned(double x, uint64_t turns) {
  const Turned turned = TakeTurns(x);
  const SineAndCosine of = OfRest(turned);
  turns += turned.turns;
  return WithSignOfTurns((turns & 1) != 0 ? of.cosine : of.sine, turns);
}
OPWRIGHT_FUNCTOR double TangentOf(double x) {
  const Turned turned = TakeTurns(x);
  const SineAndCosine of = OfRest(turned);
  const bool odd = (turned.turns & 1) != 0;
  return (odd ? -of.cosine : of.sine) / (odd ? of.sine : of.cosine);
}

// Reduces a float in double, which is accurate enough without a low part.
struct RoughlyTurned {
  double rest;
  uint64_t turns;
};
OPWRIGHT_FUNCTOR RoughlyTurned TakeTurns(float x) {
  constexpr double kRest = 6.0771005065061922e-11;
  const double wide = static_cast<double>(x);
  const double shifted = ShiftedTurns(wide);
  const double n = shifted - Format<double>::kRound;
  return {(wide - n * kQuarter[0]) - n * kRest, BitCast<uint64_t>(shifted)};
}

// Evaluates one polynomial with the coefficients of either sine or cosine: sin(r) = r + r z Q(z)
// and cos(r) = 1 + z Q(z).
OPWRIGHT_FUNCTOR float SineOfTurned(float x, uint64_t turns) {
  const RoughlyTurned turned = TakeTurns(x);
  turns += turned.turns;
  const bool odd = (turns & 1) != 0;
  const double z = turned.rest * turned.rest;
  const double first = odd ? 1.0 : turned.rest;
  const double c[] = {
      odd ? -0.499999996942 : -0.166666666416, odd ? 0.0416666203288 : 0.00833332938358,
      odd ? -0.00138866807505 : -0.000198393340826, odd ? 2.43834827674e-05 : 2.71830422495e-06};
  return static_cast<float>(WithSignOfTurns(first * z * Polynomial(z, c) + first, turns));
}
// tan(r) = r + r z Q(z), and -1 / tan(r) after a quarter turn.
OPWRIGHT_FUNCTOR float TangentOf(float x) {
  constexpr double c[] = {0.333333497838,  0.133326623181,    0.054060035244,  0.0212815578664,
                          0.0108374855244, 8.73660360772e-05, 0.00437736923729};
  const RoughlyTurned turned = TakeTurns(x);
  const double z = turned.rest * turned.rest;
  const float near = static_cast<float>(turned.rest * z * Polynomial(z, c) + turned.rest);
  return (turned.turns & 1) != 0 ? -1.0f / near : near;
}

}  // namespace detail

template <typename T>
OPWRIGHT_FUNCTOR T SinNear(T x) {
  const T sine = detail::SineOfTurned(x, 0);
  return x == T(0) ? x : sine;  // keeps the sign of 0
}

template <typename T>
OPWRIGHT_FUNCTOR T CosNear(T x) {
  return detail::SineOfTurned(x, 1);
}

template <typename T>
OPWRIGHT_FUNCTOR T TanNear(T x) {
  const T tangent = detail::TangentOf(x);
  return x == T(0) ? x : tangent;
}

// Calls the C library's function for double, which accepts any argument, even infinity.
template <typename T>
OPWRIGHT_FUNCTOR T SinFar(T x) {
  return static_cast<T>(__builtin_sin(static_cast<double>(x)));
}
template <typename T>
OPWRIGHT_FUNCTOR T CosFar(T x) {
  return static_cast<T>(__builtin_cos(static_cast<double>(x)));
}
template <typename T>
OPWRIGHT_FUNCTOR T TanFar(T x) {
  return static_cast<T>(__builtin_tan(static_cast<double>(x)));
}

template <typename T>
OPWRIGHT_FUNCTOR bool IsFarTurn(T x) {
  return detail::AbsoluteValue(x) > T(kMostTurning);
}
template <typename T>
OPWRIGHT_FUNCTOR T Sin(T x) {
  return IsFarTurn(x) ? SinFar(x) : SinNear(x);
}
template <typename T>
OPWRIGHT_FUNCTOR T Cos(T x) {
  return IsFarTurn(x) ? CosFar(x) : CosNear(x);
}
template <typename T>
OPWRIGHT_FUNCTOR T Tan(T x) {
  return IsFarTurn(x) ? TanFar(x) : TanNear(x);
}

namespace detail {

// pi / 4, rounded to the type, and the rounding error; both stay equally exact when multiplied by 2
// or 4.
template <typename T>
struct EighthTurn;
template <>
struct EighthTurn<float> {
  static constexpr float kHigh = 0.785398163f;
  static constexpr float kLow = -2.18556941e-8f;
};
template <>
struct EighthTurn<double> {
  static constexpr double kHigh = 0.785398163397448279;
  static constexpr double kLow = 3.06161699786838302e-17;
};

// (atan(q) / q - 1) / q**2 with z = q**2, for |q| <= tan(pi / 8).
OPWRIGHT_FUNCTOR float AtanTail(float z) {
  constexpr float c[] = {-0.3333333176f, 0.1999954031f, -0.1426394975f, 0.1074366832f,
                         -0.06451718869f};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double AtanTail(double z) {
  constexpr double c[] = {-0.333333333333333332,  0.199999999999998043,   -0.142857142856597778,
                          0.111111111051505879,   -0.0909090875325911294, 0.0769229636804229712,
                          -0.0666642476020052014, 0.0587892755447380676,  -0.0523044364068694771,
                          0.0455154473402216165,  -0.0345693150633260898, 0.0162843750500433944};
  return Polynomial(z, c);
}

// (asin(s) / s - 1) / s**2 with z = s**2, for |s| <= 1 / 2.
OPWRIGHT_FUNCTOR float AsinTail(float z) {
  constexpr float c[] = {0.166666663f,  0.0750009476f, 0.0445993192f,
                         0.0311017278f, 0.0171437168f, 0.0337007263f};
  return Polynomial(z, c);
}
OPWRIGHT_FUNCTOR double AsinTail(double z) {
  constexpr double c[] = {0.166666666666666678,   0.0749999999999842426, 0.0446428571463733809,
                          0.0303819441370852143,  0.0223721730020055974, 0.0173523912659092279,
                          0.0139712353011245391,  0.0114789526902573867, 0.010324318288744112,
                          0.00545087818772054995, 0.0174193579648848572, -0.0148814093928180666,
                          0.0287784426125930408};
  return Polynomial(z, c);
}

// Returns asin(a) if a = |x| <= 1 / 2, otherwise asin(sqrt((1 - a) / 2)), in which case asin(a) is
// pi / 2 minus twice the result.
template <typename T>
OPWRIGHT_FUNCTOR T TakeArcSine(T x) {
  const T a = AbsoluteValue(x);
  const bool is_far = a > T(0.5);
  const T z = is_far ? (T(1) - a) * T(0.5) : a * a;
  // The root is computed for all elements, since a branch would prevent vectorization.
  const T root = Sqrt(z);
  const T s = is_far ? root : a;
  return z * s * AsinTail(z) + s;
}

}  // namespace detail

// Returns NaN beyond 1.
template <typename T>
OPWRIGHT_FUNCTOR T Asin(T x) {
  using Eighth = detail::EighthTurn<T>;
  const T part = detail::TakeArcSine(x);
  const bool is_far = detail::AbsoluteValue(x) > T(0.5);
  const T far = T(2) * Eighth::kHigh - (T(2) * part - T(2) * Eighth::kLow);
  return detail::WithSignOf(is_far ? far : part, x);
}

template <typename T>
OPWRIGHT_FUNCTOR T Acos(T x) {
  using Eighth = detail::EighthTurn<T>;
  const T part = detail::TakeArcSine(x);
  const bool is_far = detail::AbsoluteValue(x) > T(0.5);
  const T twice = T(2) * part;
  const T left = T(4) * Eighth::kHigh - (twice - T(4) * Eighth::kLow);
  const T far = x < T(0) ? left : twice;
  const T sine = detail::WithSignOf(part, x);
  const T near = T(2) * Eighth::kHigh - (sine - T(2) * Eighth::kLow);
  return is_far ? far : near;
}

// One quotient q suffices for all x: atan(x) = atan(q) + 0, pi / 4 or pi / 2.
template <typename T>
OPWRIGHT_FUNCTOR T Atan(T x) {
  using Eighth = detail::EighthTurn<T>;
  const T a = detail::AbsoluteValue(x);
  const bool is_middle = a > T(0.41421356237309504880);
  const bool is_far = a > T(2.4142135623730950488);
  const T above = is_middle ? a - T(1) : a;
  const T below = is_middle ? a + T(1) : T(1);
  const T q = (is_far ? T(-1) : above) / (is_far ? a : below);
  const T z = q * q;
  const T arc = z * q * detail::AtanTail(z) + q;
  const T low = is_middle ? Eighth::kLow : T(0);
  const T high = is_middle ? Eighth::kHigh : T(0);
  const T sum =
      (arc + (is_far ? T(2) * Eighth::kLow : low)) + (is_far ? T(2) * Eighth::kHigh : high);
  return detail::WithSignOf(sum, x);
}

// Returns the angle of the point (x, y), as in C: zeros and infinities of either sign count as
// limits.
template <typename T>
OPWRIGHT_FUNCTOR T Atan2(T y, T x) {
  using Eighth = detail::EighthTurn<T>;
  const T height = detail::AbsoluteValue(y);
  const T width = detail::AbsoluteValue(x);
  const bool is_steep = height > width;
  const T quotient = (is_steep ? width : height) / (is_steep ? height : width);
  const T ratio = height == width ? T(1) : quotient;
  const T low = Atan(height + width == T(0) ? T(0) : ratio);
  const T steep = T(2) * Eighth::kHigh - (low - T(2) * Eighth::kLow);
  const T right = is_steep ? steep : low;
  const T left = T(4) * Eighth::kHigh - (right - T(4) * Eighth::kLow);
  const bool is_left = detail::WithSignOf(T(1), x) < T(0);
  return detail::WithSignOf(is_left ? left : right, y);
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_TRIGONOMETRY_H_
