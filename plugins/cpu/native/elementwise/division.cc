// Quotients rounded down to integers, and remainders.
#include <opwright/functors.h>

#include <limits>

#include "elementwise/kernel.h"
#include "elementwise/ranged.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// A float type in which the quotient of any two T, rounded down, is exact. This type is used
// because processors lack vector instructions for integer division.
template <typename T>
using QuotientType = std::conditional_t<sizeof(T) <= 2, float, double>;

// As in NumPy, the quotient is 0 if y is 0, and the least integer divided by -1 wraps to itself.
template <typename T>
OPWRIGHT_CPU_INLINE T WholeQuotient(T x, T y) {
  using Limits = std::numeric_limits<T>;
  if constexpr (sizeof(T) < sizeof(int64_t)) {
    using Q = QuotientType<T>;
    const T divisor = y == T(0) ? T(1) : y;
    const Q quotient = functors::Floor(static_cast<Q>(x) / static_cast<Q>(divisor));
    const bool fits = quotient <= static_cast<Q>(Limits::max());
    const T whole = static_cast<T>(fits ? quotient : static_cast<Q>(Limits::min()));
    return y == T(0) ? T(0) : whole;
  } else {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (y == T(-1)) return static_cast<T>(BitsOf<T>{0} - static_cast<BitsOf<T>>(x));
      const T cut = x / y;
      return cut - static_cast<T>((x % y != 0) & ((x < 0) != (y < 0)));
    } else {
      return x / y;
    }
  }
}
template <typename T>
OPWRIGHT_CPU_INLINE T WholeMod(T x, T y) {
  if constexpr (sizeof(T) < sizeof(int64_t)) {
    const auto taken = static_cast<uint32_t>(WholeQuotient(x, y)) * static_cast<uint32_t>(y);
    const T rest = static_cast<T>(static_cast<uint32_t>(x) - taken);
    return y == T(0) ? T(0) : rest;
  } else {
    if (y == T(0) || y == static_cast<T>(-1))
      return std::is_signed_v<T> || y == T(0) ? T(0) : x % y;
    const T rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
}
OPWRIGHT_CPU_FUNCTION_2(ModOfWhole, WholeMod(x, y));
OPWRIGHT_CPU_FUNCTION_2(FloorDivideOfWhole, WholeQuotient(x, y));

template <typename T>
struct ModOfFloat : Function<T, 2> {
  explicit ModOfFloat(const Parameters&) {}
  OPWRIGHT_CPU_INLINE T operator()(T x, T y) const {
    return functors::ModOfRemainder(functors::RemainderNear(x, y), y);
  }
  static OPWRIGHT_CPU_INLINE bool IsFar(T x, T y) { return functors::IsFarDivision(x, y); }
  static T Far(T x, T y) { return functors::ModOfRemainder(functors::Remainder(x, y), y); }
};
template <typename T>
struct FloorDivideOfFloat : Function<T, 2> {
  explicit FloorDivideOfFloat(const Parameters&) {}
  OPWRIGHT_CPU_INLINE T operator()(T x, T y) const {
    return functors::FloorDivideOfRemainder(x, y, functors::RemainderNear(x, y));
  }
  static OPWRIGHT_CPU_INLINE bool IsFar(T x, T y) { return functors::IsFarDivision(x, y); }
  static T Far(T x, T y) {
    return functors::FloorDivideOfRemainder(x, y, functors::Remainder(x, y));
  }
};

template <template <typename> class OfFloat, template <typename> class OfWhole>
Loop SelectDivision(DLDataType dtype) {
  const Loop loop = SelectRangedLoop<OfFloat>(dtype);
  return loop == nullptr ? SelectLoop<OfWhole, OPWRIGHT_CPU_INTEGERS>(dtype) : loop;
}

}  // namespace

void AddDivisionFunctions(Functions& functions) {
  functions["mod"] = {&SelectDivision<ModOfFloat, ModOfWhole>, 2, 2, nullptr};
  functions["floor_divide"] = {&SelectDivision<FloorDivideOfFloat, FloorDivideOfWhole>, 2, 2.5,
                               nullptr};
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(mod, BinaryKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(floor_divide, BinaryKernel, OPWRIGHT_CPU_NUMBERS);
