// Element-wise functions of one input, and their gradients.
#include <opwright/functors.h>

#include <cmath>
#include <limits>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"
#include "elementwise/lines.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Integers wrap around, as in NumPy. They are negated as unsigned, for which wrapping is defined.
template <typename T>
OPWRIGHT_CPU_INLINE T NegativeOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return -x;
  } else {
    return static_cast<T>(BitsOf<T>{0} - static_cast<BitsOf<T>>(x));
  }
}
template <typename T>
OPWRIGHT_CPU_INLINE T AbsoluteOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x);
  } else if constexpr (std::is_signed_v<T>) {
    return x < 0 ? NegativeOf(x) : x;
  } else {
    return x;
  }
}
template <typename T>
OPWRIGHT_CPU_INLINE T SquareOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x * x;
  } else {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
  }
}
template <typename T>
OPWRIGHT_CPU_INLINE T SignOf(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(x != 0);
  } else {
    return functors::Sign(x);
  }
}

OPWRIGHT_CPU_FUNCTION_1(Abs, AbsoluteOf(x));
OPWRIGHT_CPU_FUNCTION_1(Negative, NegativeOf(x));
OPWRIGHT_CPU_FUNCTION_1(Sign, SignOf(x));
OPWRIGHT_CPU_FUNCTION_1(Square, SquareOf(x));
OPWRIGHT_CPU_FUNCTION_1(Exp, functors::Exp(x));
OPWRIGHT_CPU_FUNCTION_1(Log, functors::Log(x));
OPWRIGHT_CPU_FUNCTION_1(Expm1, functors::Expm1(x));
OPWRIGHT_CPU_FUNCTION_1(Log1p, functors::Log1p(x));
OPWRIGHT_CPU_FUNCTION_1(Log2, functors::Log2(x));
OPWRIGHT_CPU_FUNCTION_1(Rsqrt, functors::Rsqrt(x));
OPWRIGHT_CPU_FUNCTION_1(Sqrt, functors::Sqrt(x));
OPWRIGHT_CPU_FUNCTION_1(Reciprocal, T(1) / x);
OPWRIGHT_CPU_FUNCTION_1(Erf, functors::Erf(x));

OPWRIGHT_CPU_FUNCTION_2(AbsGrad, functors::AbsGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SquareGrad, x * y * T(2));
OPWRIGHT_CPU_FUNCTION_2(RsqrtGrad, functors::RsqrtGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SqrtGrad, functors::SqrtGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(ReciprocalGrad, functors::ReciprocalGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(ErfGrad, functors::ErfGrad(x, y));

// These functions depend only on the bits.
template <typename T>
using NegativeBits = Negative<BitsOf<T>>;
template <typename T>
using SquareBits = Square<BitsOf<T>>;

template <typename T>
struct Line : Function<T, 1> {
  explicit Line(const Parameters& p)
      // Adding -0 preserves every value; adding 0 would remove the sign of -0.
      : scale(static_cast<T>(p.first)), bias(static_cast<T>(p.second == 0 ? -0.0 : p.second)) {}
  OPWRIGHT_CPU_INLINE T operator()(T x) const { return x * scale + bias; }
  T scale;
  T bias;
};

// Converts a bound to the dtype. For integers, the bound is rounded to the nearest integer inside
// the bounds and clamped to the dtype's range.
template <typename T>
T BoundOf(double bound, double (*round)(double)) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(bound);
  } else {
    using Limits = std::numeric_limits<T>;
    if (bound <= static_cast<double>(Limits::min())) return Limits::min();
    if (bound >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<T>(round(bound));
  }
}

template <typename T>
struct Limit : Function<T, 1> {
  explicit Limit(const Parameters& p)
      : low(BoundOf<T>(p.first, std::ceil)), high(BoundOf<T>(p.second, std::floor)) {}
  OPWRIGHT_CPU_INLINE T operator()(T x) const {
    const T above = x < low ? low : x;
    return above > high ? high : above;
  }
  T low;
  T high;
};

template <typename T>
struct LimitGrad : Function<T, 2> {
  explicit LimitGrad(const Parameters& p)
      : low(static_cast<T>(p.first)), high(static_cast<T>(p.second)) {}
  OPWRIGHT_CPU_INLINE T operator()(T x, T out_grad) const {
    return functors::ClipGrad(x, out_grad, low, high);
  }
  T low;
  T high;
};

}  // namespace

void AddUnaryFunctions(Functions& functions) {
  AddFunction<Abs, OPWRIGHT_CPU_NUMBERS>(functions, "abs");
  AddFunction<NegativeBits, OPWRIGHT_CPU_NUMBERS>(functions, "negative");
  AddFunction<Sign, OPWRIGHT_CPU_NUMBERS>(functions, "sign");
  AddFunction<SquareBits, OPWRIGHT_CPU_NUMBERS>(functions, "square");
  AddFunction<Limit, OPWRIGHT_CPU_NUMBERS>(functions, "clip");
  AddLongFunction<Exp, OPWRIGHT_CPU_FLOATS>(functions, "exp", 0.5);
  AddLongFunction<Log, OPWRIGHT_CPU_FLOATS>(functions, "log", 0.8);
  AddLongFunction<Expm1, OPWRIGHT_CPU_FLOATS>(functions, "expm1", 0.6);
  AddLongFunction<Log1p, OPWRIGHT_CPU_FLOATS>(functions, "log1p", 0.9);
  AddLongFunction<Log2, OPWRIGHT_CPU_FLOATS>(functions, "log2", 0.8);
  AddLongFunction<Rsqrt, OPWRIGHT_CPU_FLOATS>(functions, "rsqrt", 0.4);
  AddLongFunction<Sqrt, OPWRIGHT_CPU_FLOATS>(functions, "sqrt", 0.3);
  AddLongFunction<Reciprocal, OPWRIGHT_CPU_FLOATS>(functions, "reciprocal", 0.3);
  AddLongFunction<Erf, OPWRIGHT_CPU_FLOATS>(functions, "erf", 2);
  AddFunction<Line, OPWRIGHT_CPU_FLOATS>(functions, "scale");
  AddFunction<AbsGrad, OPWRIGHT_CPU_FLOATS>(functions, "abs_grad");
  AddFunction<SquareGrad, OPWRIGHT_CPU_FLOATS>(functions, "square_grad");
  AddFunction<RsqrtGrad, OPWRIGHT_CPU_FLOATS>(functions, "rsqrt_grad");
  AddLongFunction<SqrtGrad, OPWRIGHT_CPU_FLOATS>(functions, "sqrt_grad", 0.3);
  AddFunction<ReciprocalGrad, OPWRIGHT_CPU_FLOATS>(functions, "reciprocal_grad");
  AddLongFunction<ErfGrad, OPWRIGHT_CPU_FLOATS>(functions, "erf_grad", 0.6);
  AddFunction<LimitGrad, OPWRIGHT_CPU_FLOATS>(functions, "clip_grad");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(abs, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(negative, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(sign, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(square, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(clip, UnaryKernel<ClipAttrs>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(exp, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(log, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(expm1, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(log1p, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(log2, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(rsqrt, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(sqrt, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(reciprocal, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(erf, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(scale, UnaryKernel<ScaleAttrs>, OPWRIGHT_CPU_FLOATS);

OPWRIGHT_CPU_REGISTER_GRADIENT(abs, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(square, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(erf, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(clip, GradientOfX<ClipAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(rsqrt, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(sqrt, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(reciprocal, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
