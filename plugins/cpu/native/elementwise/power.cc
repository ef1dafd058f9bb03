// Powers, and their gradient.
#include <opwright/functors.h>

#include <algorithm>
#include <cmath>

#include "common/parallel.h"
#include "common/widened.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// C's powf, computed as e**(y ln|x|) in double, whose error is far below float's.
OPWRIGHT_CPU_INLINE float PowerOf(float base, float exponent) {
  constexpr double kInfinity = __builtin_inf();
  constexpr double kRound = 6755399441055744.0;  // adding it rounds to whole numbers
  const double x = static_cast<double>(base);
  const double y = static_cast<double>(exponent);
  const double size = x < 0 ? -x : x;
  const double power = functors::Exp(y * functors::Log(size));
  // From 2**25 on every float is even.
  const double y_size = y < 0 ? -y : y;
  const double counted = y_size > 33554432.0 ? 33554432.0 : y_size;
  const double half = counted * 0.5;
  const bool whole = (counted + kRound) - kRound == counted;
  const bool odd = whole & ((half + kRound) - kRound != half);
  const double with_sign = odd & (functors::detail::BitCast<int64_t>(x) < 0) ? -power : power;
  const bool undefined = (x < 0) & (x > -kInfinity) & !whole & (y == y);
  const double defined = undefined ? __builtin_nan("") : with_sign;
  // 1 whatever the other is, NaN included; and (-1)**inf, which the logarithm leaves undefined.
  const bool one = (x == 1) | (y == 0) | ((size == 1) & (y_size == kInfinity));
  return static_cast<float>(one ? 1.0 : defined);
}

// In double the logarithm would be needed to more digits than the type has: the C library's.
inline double PowerOf(double base, double exponent) { return std::pow(base, exponent); }

// Whole numbers wrap around; the exponent is not negative.
template <typename T>
T PowerOf(T base, T exponent) {
  // NOLINTBEGIN(bugprone-signed-char-misuse): a sign that is extended is what wraps around
  uint64_t power = 1;
  uint64_t factor = static_cast<uint64_t>(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0) power *= factor;
    factor *= factor;
  }
  // NOLINTEND(bugprone-signed-char-misuse)
  return static_cast<T>(power);
}

OPWRIGHT_CPU_FUNCTION_2(Power, PowerOf(x, y));

// The exponents that networks use need no logarithm.
OPWRIGHT_CPU_PARAMETER_FUNCTION(PowerOfOne, 1, (T x), PowerOf(x, first));
OPWRIGHT_CPU_FUNCTION_1(SecondPower, x* x);
OPWRIGHT_CPU_FUNCTION_1(ThirdPower, x * x * x);
OPWRIGHT_CPU_FUNCTION_1(InversePower, T(1) / x);
// The powers of -0 and -inf, unlike their roots, are not negative nor undefined.
OPWRIGHT_CPU_FUNCTION_1(HalfPower, functors::Sqrt(x == T(-__builtin_inf()) ? -x : x + T(0)));
OPWRIGHT_CPU_FUNCTION_1(InverseHalfPower,
                        T(1) / functors::Sqrt(x == T(-__builtin_inf()) ? -x : x + T(0)));

template <typename T>
void PowerOfOneLoop(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  Loop loop = &MapLoop<PowerOfOne<T>>;
  if (parameters.first == 2) loop = &MapLoop<SecondPower<T>>;
  if (parameters.first == 3) loop = &MapLoop<ThirdPower<T>>;
  if (parameters.first == 0.5) loop = &MapLoop<HalfPower<T>>;
  if (parameters.first == -1) loop = &MapLoop<InversePower<T>>;
  if (parameters.first == -0.5) loop = &MapLoop<InverseHalfPower<T>>;
  loop(inputs, out, n, parameters);
}
Loop SelectPowerOfOne(DLDataType dtype) {
  if (dtype.code != kDLFloat || dtype.bits < 32) return nullptr;
  return dtype.bits == 64 ? &PowerOfOneLoop<double> : &PowerOfOneLoop<float>;
}

class PowerKernel : public MapKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x", "y"}); }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const DLDataType dtype = ctx.output(0).dtype();
    const Loop loop = SelectLoop<Power, OPWRIGHT_CPU_NUMBERS>(WideDtype(dtype));
    if (dtype.code == kDLInt) {
      find_negative_ = SelectNegative<int8_t, int16_t, int32_t, int64_t>(dtype);
    }
    n_exponents_ = ctx.input(1).numel();
    return Plan(ctx, {loop, {}, 20, {0, 1}});
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs& attrs) const {
    if (find_negative_ != nullptr) {
      const void* exponents = ctx.input(1).raw();
      OPWRIGHT_ENFORCE(!find_negative_(exponents, n_exponents_),
                       "Integers to negative integer powers are not allowed; cast x and y to a "
                       "float dtype");
    }
    return MapKernel::Run(ctx, attrs);
  }

 private:
  using Find = bool (*)(const void* items, int64_t n);

  template <typename T>
  static bool FindNegative(const void* items, int64_t n) {
    const auto* y = static_cast<const T*>(items);
    return std::any_of(y, y + n, [](T exponent) { return exponent < 0; });
  }
  template <typename... Dtypes>
  static Find SelectNegative(DLDataType dtype) {
    Find find = nullptr;
    ((opwright::SameDtype(dtype, opwright::DtypeOf<Dtypes>()) ? find = &FindNegative<Dtypes>
                                                              : find),
     ...);
    return find;
  }

  Find find_negative_ = nullptr;
  int64_t n_exponents_ = 0;
};

// y x**(y - 1), and 0 for the constant x**0 even where x is 0 or out_grad infinite. Where x**y is
// no number it has no slope, though y - 1 may round to a whole number.
template <typename T>
T GradOfBase(T x, T y, T out, T out_grad) {
  if (y == T(0)) return T(0);
  return out == out ? y * PowerOf(x, y - T(1)) * out_grad : out;
}
// x**y ln(x), and 0 where x is 0, its limit for every y above 0.
template <typename T>
T GradOfExponent(T x, T y, T out, T out_grad) {
  return x == T(0) && y >= T(0) ? T(0) : functors::Log(x) * out * out_grad;
}

// x, y, out, out_grad -> x_grad, y_grad: each absent where it is not wanted. What broadcast is
// added up in double, by one thread.
template <typename T>
class PowerGradKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    n_ = ctx.input(2).numel();
    for (uint32_t slot = 0; slot < 2; ++slot) {
      operands_.emplace_back(ctx.input(2).shape(), ctx.input(slot).shape(),
                             static_cast<int64_t>(sizeof(T)));
      n_grad_[slot] = ctx.input(slot).numel();
    }
    ctx.SetWorkspace(static_cast<uint64_t>(std::max(n_grad_[0], n_grad_[1])) * sizeof(double));
    ctx.SetEstimate(static_cast<uint64_t>(20 + 50 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    if (ctx.has_output(0)) AddUp(ctx, 0, &GradOfBase<T>);
    if (ctx.has_output(1)) AddUp(ctx, 1, &GradOfExponent<T>);
    return opwright::Status::Ok();
  }

 private:
  void AddUp(const opwright::RunContext& ctx, uint32_t slot, T (*grad_of)(T, T, T, T)) const {
    const T* x = ctx.input(0).data<T>();
    const T* y = ctx.input(1).data<T>();
    const T* out = ctx.input(2).data<T>();
    const T* out_grad = ctx.input(3).data<T>();
    auto* sums = ctx.workspace<double>();
    std::fill_n(sums, n_grad_[slot], 0.0);
    for (int64_t i = 0; i < n_; ++i) {
      const T of_one =
          grad_of(x[operands_[0].Offset(i)], y[operands_[1].Offset(i)], out[i], out_grad[i]);
      sums[operands_[slot].Offset(i)] += static_cast<double>(of_one);
    }
    T* grad = ctx.output(slot).data<T>();
    for (int64_t i = 0; i < n_grad_[slot]; ++i) grad[i] = static_cast<T>(sums[i]);
  }

  int64_t n_ = 0;
  int64_t n_grad_[2] = {};
  std::vector<Operand> operands_;
};

}  // namespace

void AddPowerFunctions(Functions& functions) {
  functions.push_back({"pow_scalar", &SelectPowerOfOne, 1, 2, nullptr});
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(pow_scalar, UnaryKernel<ExponentAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(power, PowerKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("power_grad", "cpu", opwright_cpu::PowerGradKernel,
                             OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_WIDENED("power_grad", opwright_cpu::PowerGradKernel);
