// The arithmetic of the element-wise operators, written once: the C++ compiler builds the CPU's
// kernels from it, and NVRTC the GPU's. All are plain functions without branches; see elementary.h.
//
// A gradient function takes the values that the operator's gradient rule lists, and the gradient of
// `out`. Where a function is constant, its gradient of 0 is selected rather than computed by
// multiplication, since `out_grad` may be infinite there, for example if sqrt reads `out`. 16-bit
// types are widened to float by the caller and rounded once, when the result is stored.
#ifndef OPWRIGHT_FUNCTORS_H_
#define OPWRIGHT_FUNCTORS_H_

#include "opwright/functors/elementary.h"

namespace opwright {
namespace functors {

// Returns NaN if either operand is NaN, as numpy.maximum and numpy.minimum do.
template <typename T>
OPWRIGHT_FUNCTOR T Maximum(T x, T y) {
  return x >= y || x != x ? x : y;
}
template <typename T>
OPWRIGHT_FUNCTOR T Minimum(T x, T y) {
  return x <= y || x != x ? x : y;
}

// NaN stays NaN. Uses comparisons, since two nested selections are not vectorized.
template <typename T>
OPWRIGHT_FUNCTOR T Sign(T x) {
  const T sign = static_cast<T>(static_cast<T>(x > T(0)) - static_cast<T>(x < T(0)));
  return x != x ? x : sign;
}

// Returns 0 at 0, and NaN for NaN.
template <typename T>
OPWRIGHT_FUNCTOR T AbsGrad(T x, T out_grad) {
  const T grad = x < T(0) ? -out_grad : out_grad;
  const T defined = x == T(0) ? T(0) : grad;
  return x != x ? x : defined;
}

template <typename T>
OPWRIGHT_FUNCTOR T Relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <typename T>
OPWRIGHT_FUNCTOR T ReluGrad(T out, T out_grad) {
  return out <= T(0) ? T(0) : out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T LeakyRelu(T x, T alpha) {
  return x <= T(0) ? x * alpha : x;
}
template <typename T>
OPWRIGHT_FUNCTOR T LeakyReluGrad(T out, T out_grad, T alpha) {
  // out is NaN if x is -inf and alpha is 0.
  return out > T(0) ? out_grad : out_grad * alpha;
}

template <typename T>
OPWRIGHT_FUNCTOR T Elu(T x, T alpha) {
  const T below = Expm1(x > T(0) ? T(0) : x) * alpha;
  return x <= T(0) ? below : x;
}
template <typename T>
OPWRIGHT_FUNCTOR T EluGrad(T x, T out_grad, T alpha) {
  // out + alpha would lose the precision of alpha e**x.
  const T below = ExpNonPositive(x > T(0) ? T(0) : x) * alpha * out_grad;
  return x <= T(0) ? below : out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T SigmoidGrad(T out, T out_grad) {
  return (T(1) - out) * out * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T TanhGrad(T out, T out_grad) {
  return (T(1) - out * out) * out_grad;
}

// ln(1 + e**x) = max(x, 0) + ln(1 + e**-|x|), in which no term overflows.
template <typename T>
OPWRIGHT_FUNCTOR T Softplus(T x) {
  return Log1pUpTo1(ExpNonPositive(x < T(0) ? x : -x)) + Relu(x);
}
// sigmoid(x) = 1 - e**-softplus(x), which is accurate in both tails through expm1.
template <typename T>
OPWRIGHT_FUNCTOR T SoftplusGrad(T out, T out_grad) {
  return -(Expm1(-out) * out_grad);
}

// sigmoid(x) and 1 - sigmoid(x), computed without cancellation, since far from 0 the product x (1 -
// sigmoid(x)) dominates a derivative.
template <typename T>
struct Gate {
  T open;
  T rest;
};
template <typename T>
OPWRIGHT_FUNCTOR Gate<T> MakeGate(T x) {
  const T power = ExpNonPositive(x < T(0) ? x : -x);
  const T most = T(1) / (T(1) + power);
  const T least = power * most;
  return {x < T(0) ? least : most, x < T(0) ? most : least};
}

// Far from 0, the gates of these functions are 0 or 1, and x is bounded, since 0 times infinity
// would be NaN.
template <typename T>
OPWRIGHT_FUNCTOR T Silu(T x) {
  return Sigmoid(x) * (x < T(-1000) ? T(-1000) : x);
}
template <typename T>
OPWRIGHT_FUNCTOR T SiluGrad(T x, T out_grad) {
  const Gate<T> gate = MakeGate(x);
  const T derivative = (gate.rest * x + T(1)) * gate.open;
  // For larger x, the derivative equals the gate.
  return (x * x < T(1000000) ? derivative : gate.open) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T ErfGrad(T x, T out_grad) {
  // Beyond 40, the density is 0 in every type, and the square of x might overflow.
  const T bounded = detail::Clamp(x, T(-40), T(40));
  return ExpNonPositive(-(bounded * bounded)) * T(1.1283791670955125739) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T Gelu(T x) {
  return NormalCdf(x) * (x < T(-40) ? T(-40) : x);
}
template <typename T>
OPWRIGHT_FUNCTOR T GeluGrad(T x, T out_grad) {
  const T bounded = detail::Clamp(x, T(-40), T(40));
  const T density = ExpNonPositive(bounded * bounded * T(-0.5)) * T(0.39894228040143267794);
  return (NormalCdf(x) + density * bounded) * out_grad;
}

// (1 + tanh(z)) / 2 = sigmoid(2 z) with 2 z = linear x + cubic x**3. Beyond 22, the gate is 0 or 1
// in every type, and the cube might overflow.
template <typename T>
OPWRIGHT_FUNCTOR T TwiceGeluTanhArgument(T bounded) {
  const T cubic = T(1.5957691216057308 * 0.044715);
  return (bounded * bounded * cubic + T(1.5957691216057308)) * bounded;
}
template <typename T>
OPWRIGHT_FUNCTOR T GeluTanh(T x) {
  const T bounded = detail::Clamp(x, T(-22), T(22));
  return Sigmoid(TwiceGeluTanhArgument(bounded)) * (x < T(-22) ? T(-22) : x);
}
template <typename T>
OPWRIGHT_FUNCTOR T GeluTanhGrad(T x, T out_grad) {
  const T bounded = detail::Clamp(x, T(-22), T(22));
  const Gate<T> gate = MakeGate(TwiceGeluTanhArgument(bounded));
  const T cubic = T(3 * 1.5957691216057308 * 0.044715);
  const T derivative = (bounded * bounded * cubic + T(1.5957691216057308)) * gate.open * gate.rest;
  return (gate.open + derivative * bounded) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T SqrtGrad(T out, T out_grad) {
  return out_grad / (out + out);
}
template <typename T>
OPWRIGHT_FUNCTOR T ReciprocalGrad(T out, T out_grad) {
  // In this order no factor overflows or underflows unless the result does.
  return -(out_grad * out * out);
}
template <typename T>
OPWRIGHT_FUNCTOR T ClipGrad(T x, T out_grad, T low, T high) {
  return x >= low && x <= high ? out_grad : T(0);
}

// ---- Gradients of trigonometric functions and powers

template <typename T>
OPWRIGHT_FUNCTOR T RsqrtGrad(T out, T out_grad) {
  return out_grad * out * out * out * T(-0.5);
}
template <typename T>
OPWRIGHT_FUNCTOR T TanGrad(T out, T out_grad) {
  return (out * out + T(1)) * out_grad;
}
// (1 - x)(1 + x) is accurate for x near 1, where 1 - x**2 loses precision.
template <typename T>
OPWRIGHT_FUNCTOR T AsinGrad(T x, T out_grad) {
  return out_grad / Sqrt((T(1) - x) * (T(1) + x));
}
template <typename T>
OPWRIGHT_FUNCTOR T AcosGrad(T x, T out_grad) {
  return -AsinGrad(x, out_grad);
}

// ---- Division as in NumPy: the remainder has the sign of y

template <typename T>
OPWRIGHT_FUNCTOR T WithSign(T size, T sign) {
  return sign < T(0) ? -size : size;
}
template <typename T>
OPWRIGHT_FUNCTOR T ModOfRemainder(T remainder, T y) {
  const bool differs = (remainder < T(0)) != (y < T(0));
  const T moved = differs ? remainder + y : remainder;
  return remainder == T(0) ? WithSign(T(0), y) : moved;
}
// A quotient below 1 / 2 rounds to a zero that has the sign of the quotient.
template <typename T>
OPWRIGHT_FUNCTOR T FloorDivideOfRemainder(T x, T y, T remainder) {
  const bool differs = remainder != T(0) && (remainder < T(0)) != (y < T(0));
  const T cut = (x - remainder) / y;
  const T quotient = differs ? cut - T(1) : cut;
  const T below = Floor(quotient);
  const T whole = quotient - below > T(0.5) ? below + T(1) : below;
  const T zero = WithSign(T(0), x / y);
  const T finite = quotient == T(0) ? zero : whole;
  return y == T(0) ? x / y : finite;
}

// ---- Handling of non-finite numbers

template <typename T>
OPWRIGHT_FUNCTOR bool IsFinite(T x) {
  return x - x == T(0);
}
template <typename T>
OPWRIGHT_FUNCTOR bool IsInf(T x) {
  return x == x && x - x != T(0);
}
template <typename T>
OPWRIGHT_FUNCTOR T NanToNum(T x, T nan, T above, T below) {
  const T end = x > T(0) ? above : below;
  const T number = IsInf(x) ? end : x;
  return x != x ? nan : number;
}
template <typename T>
OPWRIGHT_FUNCTOR T NanToNumGrad(T x, T out_grad) {
  return IsFinite(x) ? out_grad : T(0);
}

}  // namespace functors
}  // namespace opwright

#include "opwright/functors/activations.h"
#include "opwright/functors/squares.h"

#endif  // OPWRIGHT_FUNCTORS_H_
