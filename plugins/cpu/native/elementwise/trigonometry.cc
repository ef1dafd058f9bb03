// Trigonometric and hyperbolic functions, and their gradients.
#include <opwright/functors.h>

#include "elementwise/kernel.h"
#include "elementwise/lines.h"
#include "elementwise/ranged.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

#define OPWRIGHT_CPU_TURNING_FUNCTION(name)                                         \
  template <typename T>                                                             \
  struct name : Function<T, 1> {                                                    \
    explicit name(const Parameters&) {}                                             \
    OPWRIGHT_CPU_INLINE T operator()(T x) const { return functors::name##Near(x); } \
    static OPWRIGHT_CPU_INLINE bool IsFar(T x) { return functors::IsFarTurn(x); }   \
    static T Far(T x) { return functors::name##Far(x); }                            \
  }
OPWRIGHT_CPU_TURNING_FUNCTION(Sin);
OPWRIGHT_CPU_TURNING_FUNCTION(Cos);
OPWRIGHT_CPU_TURNING_FUNCTION(Tan);
OPWRIGHT_CPU_FUNCTION_1(Asin, functors::Asin(x));
OPWRIGHT_CPU_FUNCTION_1(Acos, functors::Acos(x));
OPWRIGHT_CPU_FUNCTION_1(Atan, functors::Atan(x));
OPWRIGHT_CPU_FUNCTION_1(Sinh, functors::Sinh(x));
OPWRIGHT_CPU_FUNCTION_1(Cosh, functors::Cosh(x));
OPWRIGHT_CPU_FUNCTION_2(Atan2, functors::Atan2(x, y));
OPWRIGHT_CPU_FUNCTION_2(Atan2Derivative, functors::Atan2Derivative(x, y));

OPWRIGHT_CPU_FUNCTION_2(TanGrad, functors::TanGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(AsinGrad, functors::AsinGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(AcosGrad, functors::AcosGrad(x, y));
OPWRIGHT_CPU_FUNCTION_2(AtanGrad, functors::AtanGrad(x, y));

}  // namespace

void AddTrigonometricFunctions(Functions& functions) {
  AddRangedFunction<Sin>(functions, "sin", 0.8);
  AddRangedFunction<Cos>(functions, "cos", 0.8);
  AddRangedFunction<Tan>(functions, "tan", 1.2);
  AddLongFunction<Asin, OPWRIGHT_CPU_FLOATS>(functions, "asin", 0.6);
  AddLongFunction<Acos, OPWRIGHT_CPU_FLOATS>(functions, "acos", 0.6);
  AddLongFunction<Atan, OPWRIGHT_CPU_FLOATS>(functions, "atan", 0.6);
  AddLongFunction<Sinh, OPWRIGHT_CPU_FLOATS>(functions, "sinh", 0.8);
  AddLongFunction<Cosh, OPWRIGHT_CPU_FLOATS>(functions, "cosh", 0.8);
  AddLongFunction<Atan2, OPWRIGHT_CPU_FLOATS>(functions, "atan2", 2);
  AddLongFunction<Atan2Derivative, OPWRIGHT_CPU_FLOATS>(functions, "atan2_derivative", 0.5);
  AddFunction<TanGrad, OPWRIGHT_CPU_FLOATS>(functions, "tan_grad");
  AddLongFunction<AsinGrad, OPWRIGHT_CPU_FLOATS>(functions, "asin_grad", 0.5);
  AddLongFunction<AcosGrad, OPWRIGHT_CPU_FLOATS>(functions, "acos_grad", 0.5);
  AddFunction<AtanGrad, OPWRIGHT_CPU_FLOATS>(functions, "atan_grad", 0.3);
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(sin, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(cos, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(tan, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(asin, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(acos, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(atan, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(sinh, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(cosh, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(atan2, BinaryKernel, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(atan2_derivative, BinaryKernel, OPWRIGHT_CPU_FLOATS);

OPWRIGHT_CPU_REGISTER_GRADIENT(tan, GradientOfOut<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(asin, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(acos, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_GRADIENT(atan, GradientOfX<>, OPWRIGHT_CPU_FLOATS);
