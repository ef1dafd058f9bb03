// Bitwise operators and shifts of integers, and the sign bit of floats.
#include <cmath>
#include <type_traits>

#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

OPWRIGHT_CPU_FUNCTION_2(BothBits, static_cast<T>(x& y));
OPWRIGHT_CPU_FUNCTION_2(EitherBits, static_cast<T>(x | y));
OPWRIGHT_CPU_FUNCTION_2(OneOfBits, static_cast<T>(x ^ y));
OPWRIGHT_CPU_FUNCTION_2(CopySign, std::copysign(x, y));

template <typename T>
using BitwiseAnd = BothBits<BitsOf<T>>;
template <typename T>
using BitwiseOr = EitherBits<BitsOf<T>>;
template <typename T>
using BitwiseXor = OneOfBits<BitsOf<T>>;

// bool is a byte that is 0 or 1.
template <typename T>
struct BitwiseNot : Function<BitsOf<T>, 1> {
  using B = BitsOf<T>;
  explicit BitwiseNot(const Parameters&) {}
  OPWRIGHT_CPU_INLINE B operator()(B x) const {
    return static_cast<B>(std::is_same_v<T, bool> ? x ^ B(1) : x ^ static_cast<B>(-1));
  }
};

// A shift by a negative count, or by at least the number of bits, shifts all bits out. Such shifts
// are undefined in C++, so the count is masked or bounded before the shift.
template <typename T>
constexpr int kBits = 8 * static_cast<int>(sizeof(T));

template <typename T>
struct LeftShift : Function<BitsOf<T>, 2> {
  using B = BitsOf<T>;
  explicit LeftShift(const Parameters&) {}
  OPWRIGHT_CPU_INLINE B operator()(B x, B y) const {
    const B moved = static_cast<B>(x << (y & (kBits<T> - 1)));
    return y < B(kBits<T>) ? moved : B(0);
  }
};
template <typename T>
struct RightShift : Function<T, 2> {
  using B = BitsOf<T>;
  explicit RightShift(const Parameters&) {}
  OPWRIGHT_CPU_INLINE T operator()(T x, T y) const {
    const B places = static_cast<B>(y);
    const bool is_inside = places < B(kBits<T>);
    const B bounded = is_inside ? places : B(kBits<T> - 1);
    const T moved = static_cast<T>(x >> bounded);
    return is_inside || std::is_signed_v<T> ? moved : T(0);
  }
};

}  // namespace

#define OPWRIGHT_CPU_INTEGERS_AND_BOOL OPWRIGHT_CPU_INTEGERS, bool

void AddBitFunctions(Functions& functions) {
  AddFunction<BitwiseAnd, OPWRIGHT_CPU_INTEGERS_AND_BOOL>(functions, "bitwise_and");
  AddFunction<BitwiseOr, OPWRIGHT_CPU_INTEGERS_AND_BOOL>(functions, "bitwise_or");
  AddFunction<BitwiseXor, OPWRIGHT_CPU_INTEGERS_AND_BOOL>(functions, "bitwise_xor");
  AddFunction<BitwiseNot, OPWRIGHT_CPU_INTEGERS_AND_BOOL>(functions, "bitwise_not");
  AddFunction<LeftShift, OPWRIGHT_CPU_INTEGERS>(functions, "left_shift");
  AddFunction<RightShift, OPWRIGHT_CPU_INTEGERS>(functions, "right_shift");
  AddFunction<CopySign, OPWRIGHT_CPU_FLOATS>(functions, "copysign");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(bitwise_and, BinaryKernel, OPWRIGHT_CPU_INTEGERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(bitwise_or, BinaryKernel, OPWRIGHT_CPU_INTEGERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(bitwise_xor, BinaryKernel, OPWRIGHT_CPU_INTEGERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(bitwise_not, UnaryKernel<>, OPWRIGHT_CPU_INTEGERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(left_shift, BinaryKernel, OPWRIGHT_CPU_INTEGERS);
OPWRIGHT_CPU_REGISTER(right_shift, BinaryKernel, OPWRIGHT_CPU_INTEGERS);
OPWRIGHT_CPU_REGISTER(copysign, BinaryKernel, OPWRIGHT_CPU_FLOATS);
