// Loops that apply a function of one to three operands to all elements.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_MAP_H_
#define OPWRIGHT_CPU_ELEMENTWISE_MAP_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "common/clones.h"

namespace opwright_cpu {

// The attribute values of a function; their meaning depends on the function.
struct Parameters {
  double first = 0;
  double second = 0;
  double third = 0;
};

// Reads n elements of each input and writes n elements, in the same order. `out` may be an input.
using Loop = void (*)(const void* const* inputs, void* out, int64_t n,
                      const Parameters& parameters);

// F is constructed from Parameters and declares the types In and Out and the number kInputs of
// operands of type In. Iterations are independent, even if the output is an input.
template <typename F>
OPWRIGHT_CPU_CLONES void MapLoop(const void* const* inputs, void* out, int64_t n,
                                 const Parameters& parameters) {
  const F f(parameters);
  auto* to = static_cast<typename F::Out*>(out);
  const auto* x = static_cast<const typename F::In*>(inputs[0]);
  if constexpr (F::kInputs == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = f(x[i]);
  } else {
    const auto* y = static_cast<const typename F::In*>(inputs[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = f(x[i], y[i]);
  }
}

template <typename T, int N, typename R = T>
struct Function {
  using In = T;
  using Out = R;
  static constexpr int kInputs = N;
};

// Defines a function without attributes: OPWRIGHT_CPU_FUNCTION_1(Square, x * x).
#define OPWRIGHT_CPU_FUNCTION_1(name, expression)                      \
  template <typename T>                                                \
  struct name : Function<T, 1> {                                       \
    explicit name(const Parameters&) {}                                \
    OPWRIGHT_CPU_INLINE T operator()(T x) const { return expression; } \
  }
#define OPWRIGHT_CPU_FUNCTION_2(name, expression)                           \
  template <typename T>                                                     \
  struct name : Function<T, 2> {                                            \
    explicit name(const Parameters&) {}                                     \
    OPWRIGHT_CPU_INLINE T operator()(T x, T y) const { return expression; } \
  }

// Defines a function with up to two attributes, converted to the type in which it computes.
#define OPWRIGHT_CPU_PARAMETER_FUNCTION(name, n, arguments, expression)       \
  template <typename T>                                                       \
  struct name : Function<T, n> {                                              \
    explicit name(const Parameters& p)                                        \
        : first(static_cast<T>(p.first)), second(static_cast<T>(p.second)) {} \
    OPWRIGHT_CPU_INLINE T operator() arguments const { return expression; }   \
    T first;                                                                  \
    T second;                                                                 \
  }

// The unsigned integer type that replaces T in loops that depend only on bits, which reduces the
// number of compiled loops and makes wrapping well-defined.
template <typename T, typename = void>
struct Bits {
  using Type = T;
};
template <typename T>
struct Bits<T, std::enable_if_t<std::is_integral_v<T> && sizeof(T) == 1>> {
  using Type = uint8_t;
};
template <typename T>
struct Bits<T, std::enable_if_t<std::is_integral_v<T> && sizeof(T) == 2>> {
  using Type = uint16_t;
};
template <typename T>
struct Bits<T, std::enable_if_t<std::is_integral_v<T> && sizeof(T) == 4>> {
  using Type = uint32_t;
};
template <typename T>
struct Bits<T, std::enable_if_t<std::is_integral_v<T> && sizeof(T) == 8>> {
  using Type = uint64_t;
};
template <typename T>
using BitsOf = typename Bits<T>::Type;

// The loops of an operator's function.
struct NamedFunction {
  Loop (*select)(DLDataType dtype) = nullptr;  // returns NULL for an unsupported dtype
  int n_inputs = 0;
  double ns = 0;  // arithmetic in ns per float, if it takes longer than memory access
  Loop (*select_lines)(DLDataType dtype) = nullptr;  // see lines.h; NULL for short functions
};
using Functions = std::unordered_map<std::string, NamedFunction>;  // by operator type

template <template <typename> class F, typename... Dtypes>
Loop SelectLoop(DLDataType dtype) {
  Loop loop = nullptr;
  ((opwright::SameDtype(dtype, opwright::DtypeOf<Dtypes>()) ? loop = &MapLoop<F<Dtypes>> : loop),
   ...);
  return loop;
}

template <template <typename> class F, typename... Dtypes>
void AddFunction(Functions& functions, const char* op_type, double ns = 0) {
  functions[op_type] = {&SelectLoop<F, Dtypes...>, F<float>::kInputs, ns, nullptr};
}

// Each of these functions adds the element-wise functions of one file.
void AddUnaryFunctions(Functions& functions);
void AddActivationFunctions(Functions& functions);
void AddArithmeticFunctions(Functions& functions);
void AddComparisonFunctions(Functions& functions);
void AddTrigonometricFunctions(Functions& functions);
void AddRoundingFunctions(Functions& functions);
void AddDivisionFunctions(Functions& functions);
void AddKinkedFunctions(Functions& functions);
void AddSmoothFunctions(Functions& functions);
void AddPowerFunctions(Functions& functions);
void AddBitFunctions(Functions& functions);
void AddSpecialFunctions(Functions& functions);

// Returns the function of this operator type, or NULL.
const NamedFunction* FindFunction(const std::string& op_type);

}  // namespace opwright_cpu

// Lists of dtypes for functions and registrations.
#define OPWRIGHT_CPU_INTEGERS \
  int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
#define OPWRIGHT_CPU_FLOATS float, double
#define OPWRIGHT_CPU_NUMBERS OPWRIGHT_CPU_FLOATS, OPWRIGHT_CPU_INTEGERS
#define OPWRIGHT_CPU_NUMBERS_AND_BOOL OPWRIGHT_CPU_NUMBERS, bool

#endif  // OPWRIGHT_CPU_ELEMENTWISE_MAP_H_
