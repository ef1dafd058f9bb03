// The functors of the element-wise operators, applied to values of compute types. The arithmetic of
// the functors comes from opwright/functors.h, which all devices share.
#ifndef OPWRIGHT_CUDA_FUNCTIONS_H_
#define OPWRIGHT_CUDA_FUNCTIONS_H_

#include "function_macros.h"
#include "kernel.h"

namespace opwright_cuda {

// The type in which integers wrap around. This type is unsigned, so wrapping is defined, and has at
// least 32 bits.
template <typename T>
struct WrappingTraits {
  using Type = uint32_t;
};
template <>
struct WrappingTraits<int64_t> {
  using Type = uint64_t;
};
template <>
struct WrappingTraits<uint64_t> {
  using Type = uint64_t;
};
template <>
struct WrappingTraits<float> {
  using Type = float;
};
template <>
struct WrappingTraits<double> {
  using Type = double;
};
template <typename T>
using Wrapping = typename WrappingTraits<T>::Type;

template <typename T>
OW_INLINE T AbsoluteOf(T x) {
  if constexpr (IsFloat<T>::value) {
    return fabs(x);
  } else if constexpr (IsSigned<T>::value) {
    return x < 0 ? static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x)) : x;
  } else {
    return x;
  }
}
template <typename T>
OW_INLINE T NegativeOf(T x) {
  if constexpr (IsFloat<T>::value) return -x;
  return static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x));
}
template <typename T>
OW_INLINE T SignOf(T x) {
  if constexpr (IsSigned<T>::value) return functors::Sign(x);
  return static_cast<T>(x != T(0));
}

OW_FUNCTION_1(Identity, x);
OW_FUNCTION_1(Abs, AbsoluteOf(x));
OW_FUNCTION_1(Negative, NegativeOf(x));
OW_FUNCTION_1(Sign, SignOf(x));
OW_FUNCTION_1(Square, static_cast<T>(static_cast<W>(x) * static_cast<W>(x)));
OW_FUNCTION_1(Exp, functors::Exp(x));
OW_FUNCTION_1(Log, functors::Log(x));
OW_FUNCTION_1(Sqrt, functors::Sqrt(x));
OW_FUNCTION_1(Reciprocal, T(1) / x);
OW_FUNCTION_1(Erf, functors::Erf(x));
OW_FUNCTION_1(Relu, functors::Maximum(x, T(0)));
OW_FUNCTION_1(Sigmoid, functors::Sigmoid(x));
OW_FUNCTION_1(Tanh, functors::Tanh(x));
OW_FUNCTION_1(Softplus, functors::Softplus(x));
OW_FUNCTION_1(Silu, functors::Silu(x));
OW_FUNCTION_1(Gelu, functors::Gelu(x));
OW_FUNCTION_1(GeluTanh, functors::GeluTanh(x));

OW_FUNCTION_2(AbsGrad, functors::AbsGrad(x, y));
OW_FUNCTION_2(SquareGrad, x * y * T(2));
OW_FUNCTION_2(SqrtGrad, functors::SqrtGrad(x, y));
OW_FUNCTION_2(ReciprocalGrad, functors::ReciprocalGrad(x, y));
OW_FUNCTION_2(ErfGrad, functors::ErfGrad(x, y));
OW_FUNCTION_2(ReluGrad, functors::ReluGrad(x, y));
OW_FUNCTION_2(SigmoidGrad, functors::SigmoidGrad(x, y));
OW_FUNCTION_2(TanhGrad, functors::TanhGrad(x, y));
OW_FUNCTION_2(SoftplusGrad, functors::SoftplusGrad(x, y));
OW_FUNCTION_2(SiluGrad, functors::SiluGrad(x, y));
OW_FUNCTION_2(GeluGrad, functors::GeluGrad(x, y));
OW_FUNCTION_2(GeluTanhGrad, functors::GeluTanhGrad(x, y));

OW_WITH_ALPHA(Elu, (T x), functors::Elu(x, alpha));
OW_WITH_ALPHA(LeakyRelu, (T x), functors::LeakyRelu(x, alpha));
OW_WITH_ALPHA(EluGrad, (T x, T out_grad), functors::EluGrad(x, out_grad, alpha));
OW_WITH_ALPHA(LeakyReluGrad, (T out, T out_grad), functors::LeakyReluGrad(out, out_grad, alpha));

template <typename T>
struct Scale {
  T scale;
  T bias;
  // A bias of 0 is not added, because -0 + 0 is 0.
  OW_INLINE T operator()(T x) const { return bias == T(0) ? x * scale : x * scale + bias; }
};
template <typename T>
struct Clip {
  T low;
  T high;
  OW_INLINE T operator()(T x) const {
    const T above = x < low ? low : x;
    return above > high ? high : above;
  }
};
template <typename T>
struct ClipGrad {
  T low;
  T high;
  OW_INLINE T operator()(T x, T out_grad) const {
    return functors::ClipGrad(x, out_grad, low, high);
  }
};

OW_FUNCTION_2(Add, static_cast<T>(static_cast<W>(x) + static_cast<W>(y)));
OW_FUNCTION_2(Subtract, static_cast<T>(static_cast<W>(x) - static_cast<W>(y)));
OW_FUNCTION_2(Multiply, static_cast<T>(static_cast<W>(x) * static_cast<W>(y)));
OW_FUNCTION_2(Divide, x / y);
OW_FUNCTION_2(Maximum, functors::Maximum(x, y));
OW_FUNCTION_2(Minimum, functors::Minimum(x, y));

OW_PREDICATE(Equal, x == y);
OW_PREDICATE(NotEqual, x != y);
OW_PREDICATE(Less, x < y);
OW_PREDICATE(LessEqual, x <= y);
OW_PREDICATE(Greater, x > y);
OW_PREDICATE(GreaterEqual, x >= y);
// NaN counts as true, as in C.
OW_PREDICATE(LogicalAnd, (x != T(0)) && (y != T(0)));
OW_PREDICATE(LogicalOr, (x != T(0)) || (y != T(0)));
OW_PREDICATE(LogicalXor, (x != T(0)) != (y != T(0)));
template <typename T>
struct LogicalNot {
  OW_INLINE bool operator()(T x) const { return x == T(0); }
};

// Dropped elements are 0 for every x, even NaN.
template <typename T>
struct KeepScaled {
  T scale;
  OW_INLINE T operator()(bool is_kept, T x) const { return is_kept ? x * scale : T(0); }
};

template <typename T>
struct DivideBy {
  T divisor;
  OW_INLINE T operator()(T x) const { return x / divisor; }
};
// Returns whether x is equal to the extremum y of its line; NaN is equal to NaN.
OW_PREDICATE(IsExtremum, x == y || (x != x && y != y));
// The elements equal to the extremum share its gradient, which may be infinite. The count is
// clamped to at least 1, because a caller may pass values other than the extrema.
template <typename T>
struct ShareOfTies {
  OW_INLINE T operator()(bool is_extremum, uint32_t ties, T out_grad) const {
    return is_extremum ? out_grad / T(ties == 0 ? 1 : ties) : T(0);
  }
};

// The following functors are for a score or prediction x and its label.
template <typename T>
struct SquaredError {
  OW_INLINE T operator()(T x, T label) const { return (x - label) * (x - label); }
};
template <typename T>
struct SquaredErrorGrad {
  T factor;  // 2 for x, -2 for the label
  OW_INLINE T operator()(T x, T label, T out_grad) const { return (x - label) * out_grad * factor; }
};
// This formula avoids overflow and cancellation.
template <typename T>
struct SigmoidLoss {
  OW_INLINE T operator()(T x, T label) const {
    const T tail = functors::Log1pUpTo1(functors::ExpNonPositive(-fabs(x)));
    const T share = x < T(0) ? -label : T(1) - label;
    return tail + (share == T(0) ? T(0) : x * share);  // x may be infinite
  }
};
template <typename T>
struct SigmoidLossGrad {
  OW_INLINE T operator()(T x, T label, T out_grad) const {
    return (functors::Sigmoid(x) - label) * out_grad;
  }
};
template <typename T>
struct SigmoidLossLabelGrad {
  OW_INLINE T operator()(T x, T out_grad) const { return -(x * out_grad); }
};

// Normalizes by channel statistics, then adds the residual and applies relu. Each step is rounded
// as if it were stored in T. Product and sum are fused so that recomputing the input of relu yields
// bitwise identical values.
template <typename T, bool is_relu>
struct Normalize {
  using C = Compute<T>;
  static OW_INLINE C Activated(C x) {
    if constexpr (is_relu) return Relu<C>()(Rounded<T>(x));
    return x;
  }
  OW_INLINE C operator()(C x, C mean, C inv_std, C scale, C bias) const {
    return Activated(fma(x - mean, inv_std * scale, bias));
  }
  OW_INLINE C operator()(C x, C residual, C mean, C inv_std, C scale, C bias) const {
    return Activated(Rounded<T>(fma(x - mean, inv_std * scale, bias)) + residual);
  }
};
// The gradient through relu; recomputes the input of relu.
template <typename T>
struct NormalizeReluGrad {
  using C = Compute<T>;
  OW_INLINE C operator()(C x, C out_grad, C mean, C inv_std, C scale, C bias) const {
    return ReluGrad<C>()(Normalize<T, true>()(x, mean, inv_std, scale, bias), out_grad);
  }
};
// The gradient of x. If a bias is given, the gradient passes through relu first.
template <typename T>
struct NormalizeGrad {
  using C = Compute<T>;
  // These statistics depend on x, so the mean of its gradient and the projection on the normalized
  // value are subtracted.
  OW_INLINE C operator()(C x, C out_grad, C mean, C inv_std, C scale, C grad_mean,
                         C normal_mean) const {
    const C normal = (x - mean) * inv_std;
    return (out_grad - normal * normal_mean - grad_mean) * (inv_std * scale);
  }
  OW_INLINE C operator()(C x, C out_grad, C mean, C inv_std, C scale, C grad_mean, C normal_mean,
                         C bias) const {
    const C grad = NormalizeReluGrad<T>()(x, out_grad, mean, inv_std, scale, bias);
    return (*this)(x, grad, mean, inv_std, scale, grad_mean, normal_mean);
  }
  // These statistics are constants.
  OW_INLINE C operator()(C x, C out_grad, C mean, C inv_std, C scale) const {
    return out_grad * (inv_std * scale);
  }
  OW_INLINE C operator()(C x, C out_grad, C mean, C inv_std, C scale, C bias) const {
    return NormalizeReluGrad<T>()(x, out_grad, mean, inv_std, scale, bias) * (inv_std * scale);
  }
};

// One term of a cosine. Each factor is divided by its own norm, because the product of the norms
// might underflow.
template <typename T>
struct CosineTerm {
  T scale;
  OW_INLINE T operator()(T x, T x_norm, T y, T y_norm) const {
    return (x / x_norm) * (y / y_norm) * scale;
  }
};
// Computes d cos / dx = (y/|y| - cos * x/|x|) / |x|, where a norm clamped to epsilon is constant.
template <typename T>
struct CosineGrad {
  T scale;
  T epsilon;
  OW_INLINE T operator()(T x, T x_norm, T y, T y_norm, T out, T out_grad) const {
    const T along = x_norm > epsilon ? out * (x / x_norm) : T(0);
    return (y / y_norm * scale - along) * (out_grad / x_norm);
  }
};

// A functor for elements of any dtype that has the size of T.
template <typename T>
struct Where {
  OW_INLINE T operator()(bool condition, T x, T y) const { return condition ? x : y; }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_FUNCTIONS_H_
