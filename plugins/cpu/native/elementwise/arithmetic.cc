// Arithmetic of two inputs that broadcast.
#include <opwright/functors.h>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// C++ promotes types smaller than int to int, and products in int might overflow.
template <typename T>
OPWRIGHT_CPU_INLINE T ProductOf(T x, T y) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(uint32_t)) {
    return static_cast<T>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
  } else {
    return x * y;
  }
}

OPWRIGHT_CPU_FUNCTION_2(Add, static_cast<T>(x + y));
OPWRIGHT_CPU_FUNCTION_2(Subtract, static_cast<T>(x - y));
OPWRIGHT_CPU_FUNCTION_2(Multiply, ProductOf(x, y));
OPWRIGHT_CPU_FUNCTION_2(Divide, x / y);
OPWRIGHT_CPU_FUNCTION_2(Maximum, functors::Maximum(x, y));
OPWRIGHT_CPU_FUNCTION_2(Minimum, functors::Minimum(x, y));

template <typename T>
OPWRIGHT_CPU_INLINE T SquaredDifferenceOf(T x, T y) {
  const T difference = static_cast<T>(x - y);
  return ProductOf(difference, difference);
}
OPWRIGHT_CPU_FUNCTION_2(SquaredDifference, SquaredDifferenceOf(x, y));

// bool is a byte that is 0 or 1; the sum of two bools is their maximum.
template <typename T>
using Byte = std::conditional_t<std::is_same_v<T, bool>, BitsOf<bool>, T>;
template <typename T>
using MaximumOf = Maximum<Byte<T>>;
template <typename T>
using MinimumOf = Minimum<Byte<T>>;

// Signed and unsigned integers wrap around.
template <typename T>
using AddBits = std::conditional_t<std::is_same_v<T, bool>, Maximum<BitsOf<bool>>, Add<BitsOf<T>>>;
template <typename T>
using SubtractBits = Subtract<BitsOf<T>>;
template <typename T>
using MultiplyBits = Multiply<BitsOf<T>>;
template <typename T>
using SquaredDifferenceBits = SquaredDifference<BitsOf<T>>;

// For integers, the step is an integer of the same type.
template <typename T>
struct Increment : Function<BitsOf<T>, 1> {
  explicit Increment(const Parameters& p) : step(static_cast<BitsOf<T>>(static_cast<T>(p.first))) {}
  OPWRIGHT_CPU_INLINE BitsOf<T> operator()(BitsOf<T> x) const {
    return static_cast<BitsOf<T>>(x + step);
  }
  BitsOf<T> step;
};

}  // namespace

void AddArithmeticFunctions(Functions& functions) {
  AddFunction<AddBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "add");
  AddFunction<SubtractBits, OPWRIGHT_CPU_NUMBERS>(functions, "subtract");
  AddFunction<MultiplyBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "multiply");
  AddFunction<Divide, OPWRIGHT_CPU_FLOATS>(functions, "divide", 0.3);
  AddFunction<SquaredDifferenceBits, OPWRIGHT_CPU_NUMBERS>(functions, "squared_difference");
  AddFunction<Increment, OPWRIGHT_CPU_NUMBERS>(functions, "increment");
  AddFunction<MaximumOf, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "maximum");
  AddFunction<MinimumOf, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "minimum");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(add, BinaryKernel, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(subtract, BinaryKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(multiply, BinaryKernel, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(divide, BinaryKernel, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(maximum, BinaryKernel, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(minimum, BinaryKernel, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(squared_difference, BinaryKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(increment, UnaryKernel<StepAttrs>, OPWRIGHT_CPU_NUMBERS);
