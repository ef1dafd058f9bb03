// Smooth activations that are not in activations.cc, their gradients, and powers of two.
#include <opwright/functors.h>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"
#include "elementwise/lines.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Computes 2**x, which is exact for integers x. The integer part is applied as two powers of two,
// neither of which overflows, and the fraction as a third factor.
template <typename T>
OPWRIGHT_CPU_INLINE T PowerOfTwo(T x) {
  using F = functors::detail::Format<T>;
  constexpr T kLeast = sizeof(T) == 4 ? T(-150) : T(-1075), kMost = sizeof(T) == 4 ? 128 : 1024;
  const T whole = (x + F::kRound) - F::kRound;
  const T offset = F::kRound + static_cast<T>(F::kBias);
  const T half = whole * T(0.5) + offset, other = (whole - (half - offset)) + offset;
  const T first =
      functors::detail::PowerOfTwo<T>(functors::detail::BitCast<typename F::Bits>(half));
  const T second =
      functors::detail::PowerOfTwo<T>(functors::detail::BitCast<typename F::Bits>(other));
  const T rest = (x - whole) * T(0.693147180559945309417);
  const T above_one = rest * rest * functors::detail::ExpTail(rest) + rest;
  const T power = (above_one * first + first) * second;
  return x >= kMost ? T(__builtin_inf()) : x < kLeast ? T(0) : power;
}
OPWRIGHT_CPU_FUNCTION_1(Exp2, PowerOfTwo(x));
OPWRIGHT_CPU_FUNCTION_1(LogSigmoid, functors::LogSigmoid(x));
OPWRIGHT_CPU_FUNCTION_1(Softsign, functors::Softsign(x));
OPWRIGHT_CPU_FUNCTION_1(Mish, functors::Mish(x));
OPWRIGHT_CPU_FUNCTION_1(TanhShrink, functors::TanhShrink(x));
OPWRIGHT_CPU_FUNCTION_1(Selu, functors::Selu(x));
OPWRIGHT_CPU_FUNCTION_2(LogSigmoidGrad, functors::LogSigmoidGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SoftsignGrad, functors::SoftsignGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(MishGrad, functors::MishGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(TanhShrinkGrad, functors::TanhShrinkGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SeluGrad, functors::SeluGrad(x, y));

OPWRIGHT_CPU_PARAMETER_FUNCTION(Celu, 1, (T x), functors::Celu(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(Swish, 1, (T x), functors::Swish(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(Stanh, 1, (T x), functors::Stanh(x, first, second));
OPWRIGHT_CPU_PARAMETER_FUNCTION(SoftRelu, 1, (T x), functors::SoftRelu(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(CeluGrad, 2, (T x, T out_grad),
                                functors::CeluGrad(x, out_grad, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(SwishGrad, 2, (T x, T out_grad),
                                functors::SwishGrad(x, out_grad, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(StanhGrad, 2, (T x, T out_grad),
                                functors::StanhGrad(x, out_grad, first, second));
OPWRIGHT_CPU_PARAMETER_FUNCTION(SoftReluGrad, 2, (T x, T out_grad),
                                functors::SoftReluGrad(x, out_grad, first));

}  // namespace

void AddSmoothFunctions(Functions& functions) {
  AddFunction<Exp2, OPWRIGHT_CPU_FLOATS>(functions, "exp2", 0.5);
  AddLongFunction<LogSigmoid, OPWRIGHT_CPU_FLOATS>(functions, "log_sigmoid", 1.5);
  AddFunction<Softsign, OPWRIGHT_CPU_FLOATS>(functions, "softsign", 0.3);
  AddLongFunction<Mish, OPWRIGHT_CPU_FLOATS>(functions, "mish", 0.8);
  AddLongFunction<TanhShrink, OPWRIGHT_CPU_FLOATS>(functions, "tanh_shrink", 0.8);
  AddLongFunction<Selu, OPWRIGHT_CPU_FLOATS>(functions, "selu", 0.6);
  AddLongFunction<Celu, OPWRIGHT_CPU_FLOATS>(functions, "celu", 0.7);
  AddLongFunction<Swish, OPWRIGHT_CPU_FLOATS>(functions, "swish", 0.6);
  AddLongFunction<Stanh, OPWRIGHT_CPU_FLOATS>(functions, "stanh", 0.8);
  AddLongFunction<SoftRelu, OPWRIGHT_CPU_FLOATS>(functions, "soft_relu", 1.5);
  AddLongFunction<LogSigmoidGrad, OPWRIGHT_CPU_FLOATS>(functions, "log_sigmoid_grad", 0.6);
  AddFunction<SoftsignGrad, OPWRIGHT_CPU_FLOATS>(functions, "softsign_grad", 0.3);
  AddLongFunction<MishGrad, OPWRIGHT_CPU_FLOATS>(functions, "mish_grad", 0.8);
  AddLongFunction<TanhShrinkGrad, OPWRIGHT_CPU_FLOATS>(functions, "tanh_shrink_grad", 0.8);
  AddLongFunction<SeluGrad, OPWRIGHT_CPU_FLOATS>(functions, "selu_grad", 0.6);
  AddLongFunction<CeluGrad, OPWRIGHT_CPU_FLOATS>(functions, "celu_grad", 0.7);
  AddLongFunction<SwishGrad, OPWRIGHT_CPU_FLOATS>(functions, "swish_grad", 0.7);
  AddLongFunction<StanhGrad, OPWRIGHT_CPU_FLOATS>(functions, "stanh_grad", 0.6);
  AddLongFunction<SoftReluGrad, OPWRIGHT_CPU_FLOATS>(functions, "soft_relu_grad", 0.6);
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(exp2, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(log_sigmoid, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(softsign, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(mish, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(tanh_shrink, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(selu, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(celu, UnaryKernel<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(swish, UnaryKernel<BetaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(stanh, UnaryKernel<StanhAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(soft_relu, UnaryKernel<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);

OPWRIGHT_CPU_REGISTER_GRADIENT(log_sigmoid, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(softsign, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(mish, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(tanh_shrink, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(selu, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(celu, GradientOfX<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(swish, GradientOfX<BetaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(stanh, GradientOfX<StanhAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(soft_relu, GradientOfX<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);
