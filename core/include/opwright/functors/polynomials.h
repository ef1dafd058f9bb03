// Polynomials and bounds for every compiler, including NVRTC. Included by elementary.h, which
// defines OPWRIGHT_FUNCTOR.
#ifndef OPWRIGHT_FUNCTORS_POLYNOMIALS_H_
#define OPWRIGHT_FUNCTORS_POLYNOMIALS_H_

// Unrolls the following loop with a constant number of iterations; NVRTC needs no pragma.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC_RTC__)
#define OPWRIGHT_FUNCTORS_UNROLL _Pragma("GCC unroll 16")
#else
#define OPWRIGHT_FUNCTORS_UNROLL
#endif

namespace opwright {
namespace functors {
namespace detail {

// NaN passes unchanged, since comparisons with it are false.
template <typename T>
OPWRIGHT_FUNCTOR T Clamp(T x, T low, T high) {
  const T bounded = x > high ? high : x;
  return bounded < low ? low : bounded;
}

// c[0] + c[1] x + ...: even and odd powers are summed separately, which halves the chain of
// dependent operations; short vectors are bound by latency.
template <typename T, int N>
OPWRIGHT_FUNCTOR T Polynomial(T x, const T (&c)[N]) {
  constexpr int kLastEven = (N - 1) / 2 * 2;
  constexpr int kLastOdd = (N - 2) / 2 * 2 + 1;
  const T square = x * x;
  T even = c[kLastEven];
  T odd = c[kLastOdd];
  OPWRIGHT_FUNCTORS_UNROLL
  for (int i = kLastEven - 2; i >= 0; i -= 2) even = even * square + c[i];
  OPWRIGHT_FUNCTORS_UNROLL
  for (int i = kLastOdd - 2; i >= 1; i -= 2) odd = odd * square + c[i];
  return odd * x + even;
}

// The normal distribution function of -|x| divided by e**(-x**2 / 2), for all x, with u = 4 / (4 +
// |x|), multiplied by 2**-shift.
template <int shift>
OPWRIGHT_FUNCTOR float NormalTail(float u) {
  constexpr float kScale = 1.0f / static_cast<float>(1 << shift);
  constexpr float c[] = {0.099746041f * kScale,  0.0995268002f * kScale, 0.0952454358f * kScale,
                         0.073202692f * kScale,  0.0833225325f * kScale, 0.0186858755f * kScale,
                         0.0215031561f * kScale, 0.0566863082f * kScale, -0.0648712888f * kScale,
                         0.0169524513f * kScale};
  return u * Polynomial(u, c);
}

}  // namespace detail

// Returns ln(1 + x) for 0 <= x <= 1; it needs no exponent and no special cases.
OPWRIGHT_FUNCTOR float Log1pUpTo1(float x) {
  constexpr float c[] = {0.333304703f, -0.24958156f,   0.196931928f,  -0.153490975f,
                         0.10670013f,  -0.0575615279f, 0.0201503336f, -0.0033065395f};
  const float square = x * x;
  return square * x * detail::Polynomial(x, c) + (square * -0.499999315f + x);
}

}  // namespace functors
}  // namespace opwright

#undef OPWRIGHT_FUNCTORS_UNROLL

#endif  // OPWRIGHT_FUNCTORS_POLYNOMIALS_H_
