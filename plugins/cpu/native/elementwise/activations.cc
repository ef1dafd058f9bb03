// Activations and their gradients.
#include <opwright/functors.h>

#include "common/attributes.h"
#include "elementwise/attributes.h"
#include "elementwise/kernel.h"
#include "elementwise/lines.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

OPWRIGHT_CPU_FUNCTION_1(Relu, functors::Maximum(x, T(0)));
OPWRIGHT_CPU_FUNCTION_1(Sigmoid, functors::Sigmoid(x));
OPWRIGHT_CPU_FUNCTION_1(Tanh, functors::Tanh(x));
OPWRIGHT_CPU_FUNCTION_1(Softplus, functors::Softplus(x));
OPWRIGHT_CPU_FUNCTION_1(Silu, functors::Silu(x));

OPWRIGHT_CPU_FUNCTION_2(ReluGrad, functors::ReluGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SigmoidGrad, functors::SigmoidGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(TanhGrad, functors::TanhGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SoftplusGrad, functors::SoftplusGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(SiluGrad, functors::SiluGrad(x, y));

OPWRIGHT_CPU_PARAMETER_FUNCTION(Elu, 1, (T x), functors::Elu(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(LeakyRelu, 1, (T x), functors::LeakyRelu(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(EluGrad, 2, (T x, T out_grad),
                                functors::EluGrad(x, out_grad, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(LeakyReluGrad, 2, (T out, T out_grad),
                                functors::LeakyReluGrad(out, out_grad, first));

OPWRIGHT_CPU_FUNCTION_1(ErfGelu, functors::Gelu(x));
OPWRIGHT_CPU_FUNCTION_1(TanhGelu, functors::GeluTanh(x));
OPWRIGHT_CPU_FUNCTION_2(ErfGeluGrad, functors::GeluGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(TanhGeluGrad, functors::GeluTanhGrad(x, y));

// Selects one of two functions by the first parameter. Each function has its own loop, because the
// compiler would not move the selection out of a shared loop.
template <typename F, typename OtherF>
void EitherLoop(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  (parameters.first != 0 ? MapLoop<OtherF> : MapLoop<F>)(inputs, out, n, parameters);
}
template <typename F, typename OtherF>
void EitherLines(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  static const Loop loop = SelectLineLoopOf<F>(), other = SelectLineLoopOf<OtherF>();
  (parameters.first != 0 ? other : loop)(inputs, out, n, parameters);
}
template <template <typename> class F, template <typename> class OtherF>
Loop SelectEither(DLDataType dtype) {
  if (opwright::SameDtype(dtype, opwright::DtypeOf<float>())) {
    return &EitherLoop<F<float>, OtherF<float>>;
  }
  const bool is_double = opwright::SameDtype(dtype, opwright::DtypeOf<double>());
  return is_double ? &EitherLoop<F<double>, OtherF<double>> : nullptr;
}
template <template <typename> class F, template <typename> class OtherF>
Loop SelectEitherLines(DLDataType dtype) {
  return dtype.bits == 64 ? &EitherLines<F<double>, OtherF<double>>
                          : &EitherLines<F<float>, OtherF<float>>;
}

// Computes relu on the bits of a 16-bit float. Negative numbers have the sign bit set, and NaN has
// the greatest magnitudes.
template <uint16_t kInfinity>
struct ReluOfBits : Function<uint16_t, 1> {
  explicit ReluOfBits(const Parameters&) {}
  OPWRIGHT_CPU_INLINE uint16_t operator()(uint16_t x) const {
    constexpr uint16_t kSign = 0x8000;
    const bool is_negative = (x > kSign) & (x <= (kSign | kInfinity));
    return is_negative ? uint16_t{0} : x;
  }
};

// Computes relu of 16-bit floats on their bits, since widening and rounding would take longer than
// reading and writing.
struct ReluKernel : UnaryKernel<> {
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs& attrs) {
    const DLDataType dtype = ctx.input(0).dtype();
    if (!IsHalf(dtype)) return UnaryKernel<>::Prepare(ctx, attrs);
    MapPlan plan;
    plan.loop =
        dtype.code == kDLBfloat ? &MapLoop<ReluOfBits<0x7f80>> : &MapLoop<ReluOfBits<0x7c00>>;
    plan.moves_bits = true;
    return Plan(ctx, plan);
  }
};

}  // namespace

void AddActivationFunctions(Functions& functions) {
  AddFunction<Relu, OPWRIGHT_CPU_NUMBERS>(functions, "relu");
  AddLongFunction<Sigmoid, OPWRIGHT_CPU_FLOATS>(functions, "sigmoid", 0.6);
  AddLongFunction<Tanh, OPWRIGHT_CPU_FLOATS>(functions, "tanh", 0.8);
  AddLongFunction<Softplus, OPWRIGHT_CPU_FLOATS>(functions, "softplus", 1.5);
  AddLongFunction<Silu, OPWRIGHT_CPU_FLOATS>(functions, "silu", 0.6);
  functions["gelu"] = {&SelectEither<ErfGelu, TanhGelu>, 1, 0.8,
                       &SelectEitherLines<ErfGelu, TanhGelu>};
  AddLongFunction<Elu, OPWRIGHT_CPU_FLOATS>(functions, "elu", 0.6);
  AddFunction<LeakyRelu, OPWRIGHT_CPU_FLOATS>(functions, "leaky_relu");
  AddFunction<ReluGrad, OPWRIGHT_CPU_FLOATS>(functions, "relu_grad");
  AddFunction<SigmoidGrad, OPWRIGHT_CPU_FLOATS>(functions, "sigmoid_grad");
  AddFunction<TanhGrad, OPWRIGHT_CPU_FLOATS>(functions, "tanh_grad");
  AddLongFunction<SoftplusGrad, OPWRIGHT_CPU_FLOATS>(functions, "softplus_grad", 0.6);
  AddLongFunction<SiluGrad, OPWRIGHT_CPU_FLOATS>(functions, "silu_grad", 0.7);
  functions["gelu_grad"] = {&SelectEither<ErfGeluGrad, TanhGeluGrad>, 2, 1.0,
                            &SelectEitherLines<ErfGeluGrad, TanhGeluGrad>};
  AddLongFunction<EluGrad, OPWRIGHT_CPU_FLOATS>(functions, "elu_grad", 0.6);
  AddFunction<LeakyReluGrad, OPWRIGHT_CPU_FLOATS>(functions, "leaky_relu_grad");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(relu, ReluKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(sigmoid, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(tanh, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(softplus, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(silu, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(gelu, UnaryKernel<GeluAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(elu, UnaryKernel<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(leaky_relu, UnaryKernel<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);

OPWRIGHT_CPU_REGISTER_GRADIENT(relu, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(sigmoid, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(tanh, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(softplus, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(silu, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(gelu, GradientOfX<GeluAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(elu, GradientOfX<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(leaky_relu, GradientOfOut<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
