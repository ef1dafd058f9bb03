// Comparisons and logical operators: two broadcast inputs of the same dtype yield bool.
#include <opwright/functors.h>

#include "common/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// bool is a byte that is 0 or 1.
#define OPWRIGHT_CPU_PREDICATE(name, n, arguments, expression) \
  template <typename T>                                        \
  struct name : Function<T, n, uint8_t> {                      \
    explicit name(const Parameters&) {}                        \
    OPWRIGHT_CPU_INLINE uint8_t operator() arguments const {   \
      return static_cast<uint8_t>(expression);                 \
    }                                                          \
  }
OPWRIGHT_CPU_PREDICATE(Equal, 2, (T x, T y), x == y);
OPWRIGHT_CPU_PREDICATE(NotEqual, 2, (T x, T y), x != y);
OPWRIGHT_CPU_PREDICATE(Less, 2, (T x, T y), x < y);
OPWRIGHT_CPU_PREDICATE(LessEqual, 2, (T x, T y), x <= y);
// NaN counts as true, as in C.
OPWRIGHT_CPU_PREDICATE(And, 2, (T x, T y), int{x != T(0)} & int{y != T(0)});
OPWRIGHT_CPU_PREDICATE(Or, 2, (T x, T y), int{x != T(0)} | int{y != T(0)});
OPWRIGHT_CPU_PREDICATE(Xor, 2, (T x, T y), int{x != T(0)} ^ int{y != T(0)});
OPWRIGHT_CPU_PREDICATE(Not, 1, (T x), x == T(0));
// Integers are never NaN or infinite.
OPWRIGHT_CPU_PREDICATE(IsNan, 1, (T x), x != x);
OPWRIGHT_CPU_PREDICATE(IsInf, 1, (T x), functors::IsInf(x));
OPWRIGHT_CPU_PREDICATE(IsFinite, 1, (T x), functors::IsFinite(x));

// These predicates depend only on the bits of integers.
template <typename T>
using EqualBits = Equal<BitsOf<T>>;
template <typename T>
using NotEqualBits = NotEqual<BitsOf<T>>;
template <typename T>
using AndBits = And<BitsOf<T>>;
template <typename T>
using OrBits = Or<BitsOf<T>>;
template <typename T>
using XorBits = Xor<BitsOf<T>>;
template <typename T>
using NotBits = Not<BitsOf<T>>;
template <typename T>
using IsNanBits = IsNan<BitsOf<T>>;
template <typename T>
using IsInfBits = IsInf<BitsOf<T>>;
template <typename T>
using IsFiniteBits = IsFinite<BitsOf<T>>;
// bool is compared as a byte.
template <typename T>
using Ordered = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
template <typename T>
using LessOrdered = Less<Ordered<T>>;
template <typename T>
using LessEqualOrdered = LessEqual<Ordered<T>>;

// The result differs from the inputs in its dtype, so it never shares their memory.
template <uint32_t kFirst, uint32_t kSecond>
struct PredicateKernel : MapKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    return PlanByName(ctx, {}, {kFirst, kSecond});
  }
};
using Predicate = PredicateKernel<0, 1>;
using SwappedPredicate = PredicateKernel<1, 0>;  // computes x > y as y < x

struct UnaryPredicate : MapKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    return PlanByName(ctx, {}, {0});
  }
};

}  // namespace

void AddComparisonFunctions(Functions& functions) {
  AddFunction<EqualBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "equal");
  AddFunction<NotEqualBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "not_equal");
  AddFunction<LessOrdered, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "less");
  AddFunction<LessOrdered, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "greater");
  AddFunction<LessEqualOrdered, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "less_equal");
  AddFunction<LessEqualOrdered, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "greater_equal");
  AddFunction<AndBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "logical_and");
  AddFunction<OrBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "logical_or");
  AddFunction<XorBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "logical_xor");
  AddFunction<NotBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "logical_not");
  AddFunction<IsNanBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "isnan");
  AddFunction<IsInfBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "isinf");
  AddFunction<IsFiniteBits, OPWRIGHT_CPU_NUMBERS_AND_BOOL>(functions, "isfinite");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(equal, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(not_equal, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(less, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(less_equal, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(greater, SwappedPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(greater_equal, SwappedPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(logical_and, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(logical_or, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(logical_xor, Predicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(logical_not, UnaryPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(isnan, UnaryPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(isinf, UnaryPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
OPWRIGHT_CPU_REGISTER(isfinite, UnaryPredicate, OPWRIGHT_CPU_NUMBERS_AND_BOOL);
