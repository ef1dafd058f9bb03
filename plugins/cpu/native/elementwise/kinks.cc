// Piecewise linear activations and their gradients.
#include <opwright/functors.h>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

OPWRIGHT_CPU_FUNCTION_1(Relu6, functors::Relu6(x));
OPWRIGHT_CPU_FUNCTION_1(HardSwish, functors::HardSwish(x));
OPWRIGHT_CPU_FUNCTION_2(Relu6Grad, functors::Relu6Grad(x, y));
OPWRIGHT_CPU_FUNCTION_2(HardSwishGrad, functors::HardSwishGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(Prelu, functors::LeakyRelu(x, y));

OPWRIGHT_CPU_PARAMETER_FUNCTION(HardSigmoid, 1, (T x), functors::HardSigmoid(x, first, second));
OPWRIGHT_CPU_PARAMETER_FUNCTION(HardShrink, 1, (T x), functors::HardShrink(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(SoftShrink, 1, (T x), functors::SoftShrink(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(ThresholdedRelu, 1, (T x), functors::ThresholdedRelu(x, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(HardSigmoidGrad, 2, (T out, T out_grad),
                                functors::HardSigmoidGrad(out, out_grad, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(ShrinkGrad, 2, (T x, T out_grad),
                                functors::ShrinkGrad(x, out_grad, first));
OPWRIGHT_CPU_PARAMETER_FUNCTION(ThresholdedReluGrad, 2, (T x, T out_grad),
                                functors::ThresholdedReluGrad(x, out_grad, first));

struct PreluKernel : BinaryKernel {
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x"}); }
};

}  // namespace

void AddKinkedFunctions(Functions& functions) {
  AddFunction<Relu6, OPWRIGHT_CPU_FLOATS>(functions, "relu6");
  AddFunction<HardSigmoid, OPWRIGHT_CPU_FLOATS>(functions, "hard_sigmoid");
  AddFunction<HardSwish, OPWRIGHT_CPU_FLOATS>(functions, "hard_swish");
  AddFunction<HardShrink, OPWRIGHT_CPU_FLOATS>(functions, "hard_shrink");
  AddFunction<SoftShrink, OPWRIGHT_CPU_FLOATS>(functions, "soft_shrink");
  AddFunction<ThresholdedRelu, OPWRIGHT_CPU_FLOATS>(functions, "thresholded_relu");
  AddFunction<Prelu, OPWRIGHT_CPU_FLOATS>(functions, "prelu");
  AddFunction<Relu6Grad, OPWRIGHT_CPU_FLOATS>(functions, "relu6_grad");
  AddFunction<HardSigmoidGrad, OPWRIGHT_CPU_FLOATS>(functions, "hard_sigmoid_grad");
  AddFunction<HardSwishGrad, OPWRIGHT_CPU_FLOATS>(functions, "hard_swish_grad");
  AddFunction<ShrinkGrad, OPWRIGHT_CPU_FLOATS>(functions, "hard_shrink_grad");
  AddFunction<ShrinkGrad, OPWRIGHT_CPU_FLOATS>(functions, "soft_shrink_grad");
  AddFunction<ThresholdedReluGrad, OPWRIGHT_CPU_FLOATS>(functions, "thresholded_relu_grad");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(relu6, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(hard_sigmoid, UnaryKernel<HardSigmoidAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(hard_swish, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(hard_shrink, UnaryKernel<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(soft_shrink, UnaryKernel<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(thresholded_relu, UnaryKernel<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(prelu, PreluKernel, OPWRIGHT_CPU_FLOATS);

OPWRIGHT_CPU_REGISTER_GRADIENT(relu6, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(hard_sigmoid, GradientOfOut<HardSigmoidAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(hard_swish, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(hard_shrink, GradientOfX<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(soft_shrink, GradientOfX<ThresholdAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(thresholded_relu, GradientOfX<AlphaAttrs>, OPWRIGHT_CPU_FLOATS);
