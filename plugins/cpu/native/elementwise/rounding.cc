// Rounding to integers, and the replacement of non-finite numbers.
#include <opwright/functors.h>

#include <limits>

#include "elementwise/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

OPWRIGHT_CPU_FUNCTION_1(Identity, x);
OPWRIGHT_CPU_FUNCTION_1(CeilOfFloat, functors::Ceil(x));
OPWRIGHT_CPU_FUNCTION_1(FloorOfFloat, functors::Floor(x));
OPWRIGHT_CPU_FUNCTION_1(RoundOfFloat, functors::Round(x));
OPWRIGHT_CPU_FUNCTION_1(TruncOfFloat, functors::detail::Truncate(x));
OPWRIGHT_CPU_FUNCTION_1(Frac, x - functors::detail::Truncate(x));
OPWRIGHT_CPU_FUNCTION_2(NanToNumGrad, functors::NanToNumGrad(x, y));

// Integers are returned unchanged.
template <template <typename> class F, typename T>
using WholeOr = std::conditional_t<std::is_integral_v<T>, Identity<BitsOf<T>>, F<T>>;
template <typename T>
using Ceil = WholeOr<CeilOfFloat, T>;
template <typename T>
using Floor = WholeOr<FloorOfFloat, T>;
template <typename T>
using Round = WholeOr<RoundOfFloat, T>;
template <typename T>
using Trunc = WholeOr<TruncOfFloat, T>;

// Bounds beyond the dtype's range are clamped to it.
template <typename T>
struct NanToNumOfFloat : Function<T, 1> {
  explicit NanToNumOfFloat(const Parameters& p)
      : nan(static_cast<T>(p.first)), above(Held(p.second)), below(Held(p.third)) {}
  OPWRIGHT_CPU_INLINE T operator()(T x) const { return functors::NanToNum(x, nan, above, below); }
  static T Held(double bound) {
    constexpr double kMost = std::numeric_limits<T>::max();
    return static_cast<T>(bound > kMost ? kMost : bound < -kMost ? -kMost : bound);
  }
  T nan;
  T above;
  T below;
};
template <typename T>
using NanToNum = WholeOr<NanToNumOfFloat, T>;

}  // namespace

void AddRoundingFunctions(Functions& functions) {
  AddFunction<Ceil, OPWRIGHT_CPU_NUMBERS>(functions, "ceil");
  AddFunction<Floor, OPWRIGHT_CPU_NUMBERS>(functions, "floor");
  AddFunction<Round, OPWRIGHT_CPU_NUMBERS>(functions, "round");
  AddFunction<Trunc, OPWRIGHT_CPU_NUMBERS>(functions, "trunc");
  AddFunction<Frac, OPWRIGHT_CPU_FLOATS>(functions, "frac");
  AddFunction<NanToNum, OPWRIGHT_CPU_NUMBERS>(functions, "nan_to_num");
  AddFunction<NanToNumGrad, OPWRIGHT_CPU_FLOATS>(functions, "nan_to_num_grad");
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(ceil, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(floor, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(round, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(trunc, UnaryKernel<>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER(frac, UnaryKernel<>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(nan_to_num, UnaryKernel<NanToNumAttrs>, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_GRADIENT(nan_to_num, GradientOfX<NanToNumAttrs>, OPWRIGHT_CPU_FLOATS);
