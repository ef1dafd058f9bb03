// The arithmetic of further activation functions. Included after functors.h.
#ifndef OPWRIGHT_FUNCTORS_ACTIVATIONS_H_
#define OPWRIGHT_FUNCTORS_ACTIVATIONS_H_

namespace opwright {
namespace functors {

// ---- piecewise linear

template <typename T>
OPWRIGHT_FUNCTOR T Relu6(T x) {
  return Minimum(Maximum(x, T(0)), T(6));
}
template <typename T>
OPWRIGHT_FUNCTOR T Relu6Grad(T out, T out_grad) {
  return out <= T(0) || out >= T(6) ? T(0) : out_grad;
}
template <typename T>
OPWRIGHT_FUNCTOR T HardSigmoid(T x, T alpha, T beta) {
  return Minimum(Maximum(x * alpha + beta, T(0)), T(1));
}
template <typename T>
OPWRIGHT_FUNCTOR T HardSigmoidGrad(T out, T out_grad, T alpha) {
  return out <= T(0) || out >= T(1) ? T(0) : out_grad * alpha;
}
// Returns 0 at -inf as well.
template <typename T>
OPWRIGHT_FUNCTOR T HardSwish(T x) {
  const T gate = Minimum(Maximum(x + T(3), T(0)), T(6));
  return (x < T(-3) ? T(0) : x) * gate / T(6);
}
template <typename T>
OPWRIGHT_FUNCTOR T HardSwishGrad(T x, T out_grad) {
  const T bent = (x / T(3) + T(0.5)) * out_grad;
  const T right = x >= T(3) ? out_grad : bent;
  return x <= T(-3) ? T(0) : right;
}
template <typename T>
OPWRIGHT_FUNCTOR T HardShrink(T x, T threshold) {
  return x >= -threshold && x <= threshold ? T(0) : x;
}
// The gradient of softshrink and hardshrink.
template <typename T>
OPWRIGHT_FUNCTOR T ShrinkGrad(T x, T out_grad, T threshold) {
  return x >= -threshold && x <= threshold ? T(0) : out_grad;
}
template <typename T>
OPWRIGHT_FUNCTOR T SoftShrink(T x, T threshold) {
  const T moved = x < T(0) ? x + threshold : x - threshold;
  return x >= -threshold && x <= threshold ? T(0) : moved;
}
template <typename T>
OPWRIGHT_FUNCTOR T ThresholdedRelu(T x, T alpha) {
  return x <= alpha ? T(0) : x;
}
template <typename T>
OPWRIGHT_FUNCTOR T ThresholdedReluGrad(T x, T out_grad, T alpha) {
  return x <= alpha ? T(0) : out_grad;
}

// ---- smooth activations

// Computed as -softplus(-x).
template <typename T>
OPWRIGHT_FUNCTOR T LogSigmoid(T x) {
  const T tail = Log1pUpTo1(ExpNonPositive(x < T(0) ? x : -x));
  return (x > T(0) ? T(0) : x) - tail;
}
// The derivative is sigmoid(-x) = 1 - e**out.
template <typename T>
OPWRIGHT_FUNCTOR T LogSigmoidGrad(T out, T out_grad) {
  return -(Expm1(out) * out_grad);
}

// Returns 1 and -1 at the infinities.
template <typename T>
OPWRIGHT_FUNCTOR T Softsign(T x) {
  const T size = x < T(0) ? -x : x;
  const T quotient = x / (T(1) + size);
  return IsInf(x) ? Sign(x) : quotient;
}
template <typename T>
OPWRIGHT_FUNCTOR T SoftsignGrad(T x, T out_grad) {
  const T inverse = T(1) / (T(1) + (x < T(0) ? -x : x));
  return out_grad * inverse * inverse;
}

// tanh(ln(1 + n)) = w / (w + 2) with n = e**x and w = n (n + 2), which avoids cancellation.
// From 20 on, the result is 1 in every type, and below -1000 it is 0.
template <typename T>
struct MishTerms {
  T x;
  T n;
  T w;
};
template <typename T>
OPWRIGHT_FUNCTOR MishTerms<T> MakeMishTerms(T x) {
  const T n = Exp(x > T(20) ? T(20) : x);
  return {x < T(-1000) ? T(-1000) : x, n, n * (n + T(2))};
}
template <typename T>
OPWRIGHT_FUNCTOR T Mish(T x) {
  const MishTerms<T> terms = MakeMishTerms(x);
  const T bent = terms.x * (terms.w / (terms.w + T(2)));
  return x > T(20) ? x : bent;
}
template <typename T>
OPWRIGHT_FUNCTOR T MishGrad(T x, T out_grad) {
  const MishTerms<T> terms = MakeMishTerms(x);
  const T inverse = T(1) / (terms.w + T(2));
  const T bend = T(4) * terms.x * terms.n * (terms.n + T(1)) * inverse * inverse;
  return (x > T(20) ? T(1) : terms.w * inverse + bend) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T TanhShrink(T x) {
  return x - Tanh(x);
}
template <typename T>
OPWRIGHT_FUNCTOR T TanhShrinkGrad(T x, T out_grad) {
  const T tanh = Tanh(x);
  return tanh * out_grad * tanh;  // the square alone might underflow
}

// Constants as in PyTorch and in the paper.
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
template <typename T>
OPWRIGHT_FUNCTOR T Selu(T x) {
  const T below = Expm1(x > T(0) ? T(0) : x) * T(kSeluScale * kSeluAlpha);
  return x <= T(0) ? below : x * T(kSeluScale);
}
template <typename T>
OPWRIGHT_FUNCTOR T SeluGrad(T x, T out_grad) {
  const T below = ExpNonPositive(x > T(0) ? T(0) : x) * T(kSeluScale * kSeluAlpha);
  return (x <= T(0) ? below : T(kSeluScale)) * out_grad;
}
template <typename T>
OPWRIGHT_FUNCTOR T Celu(T x, T alpha) {
  const T below = Expm1((x > T(0) ? T(0) : x) / alpha) * alpha;
  return x <= T(0) ? below : x;
}
template <typename T>
OPWRIGHT_FUNCTOR T CeluGrad(T x, T out_grad, T alpha) {
  const T derivative = ExpNonPositive((x > T(0) ? T(0) : x) / alpha);
  const T below = derivative == T(0) ? T(0) : derivative * out_grad;
  return x <= T(0) ? below : out_grad;
}

// If the gate is 0, so is the result, even at the infinities.
template <typename T>
OPWRIGHT_FUNCTOR T Swish(T x, T beta) {
  const T gate = Sigmoid(x * beta);
  return gate == T(0) ? T(0) : x * gate;
}
template <typename T>
OPWRIGHT_FUNCTOR T SwishGrad(T x, T out_grad, T beta) {
  const T z = x * beta;
  const Gate<T> gate = MakeGate(z);
  const T derivative = (gate.rest * z + T(1)) * gate.open;
  // For larger x, the derivative equals the gate.
  return (z * z < T(1000000) ? derivative : gate.open) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T Stanh(T x, T scale_a, T scale_b) {
  return Tanh(x * scale_a) * scale_b;
}
// 1 - tanh(z)**2 = 4 p / (1 + p)**2 with p = e**-2|z|, which is accurate in the tails.
template <typename T>
OPWRIGHT_FUNCTOR T StanhGrad(T x, T out_grad, T scale_a, T scale_b) {
  const T z = x * scale_a;
  const T power = ExpNonPositive((z < T(0) ? z : -z) * T(2));
  const T inverse = T(1) / (T(1) + power);
  return T(4) * power * inverse * inverse * (scale_a * scale_b) * out_grad;
}

template <typename T>
OPWRIGHT_FUNCTOR T SoftRelu(T x, T threshold) {
  return Softplus(detail::Clamp(x, -threshold, threshold));
}
template <typename T>
OPWRIGHT_FUNCTOR T SoftReluGrad(T x, T out_grad, T threshold) {
  const T grad = Sigmoid(x) * out_grad;
  return x < -threshold || x > threshold ? T(0) : grad;
}

}  // namespace functors
}  // namespace opwright

#endif  // OPWRIGHT_FUNCTORS_ACTIVATIONS_H_
