// The remainder of a truncated division, exactly as C's fmod computes it. Included by elementary.h.
//
// RemainderNear is vectorized and valid if IsFarDivision is false; otherwise Remainder calls the C
// library.
#ifndef OPWRIGHT_FUNCTORS_DIVISION_H_
#define OPWRIGHT_FUNCTORS_DIVISION_H_

namespace opwright {
namespace functors {

namespace detail {

OPWRIGHT_FUNCTOR float MultiplyAdd(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
OPWRIGHT_FUNCTOR double MultiplyAdd(double x, double y, double z) { return __builtin_fma(x, y, z); }
OPWRIGHT_FUNCTOR float Truncate(float x) { return __builtin_truncf(x); }
OPWRIGHT_FUNCTOR double Truncate(double x) { return __builtin_trunc(x); }
OPWRIGHT_FUNCTOR float CRemainder(float x, float y) { return __builtin_fmodf(x, y); }
OPWRIGHT_FUNCTOR double CRemainder(double x, double y) { return __builtin_fmod(x, y); }

}  // namespace detail

// Whether the quotient has more bits than the type, x or y is non-finite, or y is 0.
template <typename T>
OPWRIGHT_FUNCTOR bool IsFarDivision(T x, T y) {
  constexpr T kMost = T(int64_t(1) << detail::Format<T>::kMantissaBits);
  const T quotient = detail::AbsoluteValue(x / y);
  return !((quotient < kMost) & (detail::AbsoluteValue(y) < T(__builtin_inf())));
}

// The quotient may have been rounded up to the next integer. The remainder, which is exact in
// either case, then has the wrong sign.
template <typename T>
OPWRIGHT_FUNCTOR T RemainderNear(T x, T y) {
  const T whole = detail::Truncate(x / y);
  const T rest = detail::MultiplyAdd(-whole, y, x);
  const T back = rest + detail::WithSignOf(detail::AbsoluteValue(y), x);
  const bool is_over = x < T(0) ? rest > T(0) : rest < T(0);
  return detail::WithSignOf(detail::AbsoluteValue(is_over ? back : rest), x);
}

template <typename T>
OPWRIGHT_FUNCTOR T Remainder(T x, T y) {
  return IsFarDivision(x, y) ? detail::CRemainder(x, y) : RemainderNear(x, y);
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_DIVISION_H_
