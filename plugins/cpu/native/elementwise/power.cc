// Powers, and their gradient.
#include <opwright/functors.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/attributes.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "elementwise/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Computes an unrounded powf as e**(y ln|x|) in double; its error is far below float precision.
OPWRIGHT_CPU_INLINE double WidePowerOf(float base, float exponent) {
  constexpr double kInfinity = __builtin_inf();
  constexpr double kRound = 6755399441055744.0;  // adding it rounds to integers
  const double x = static_cast<double>(base);
  const double y = static_cast<double>(exponent);
  const double size = x < 0 ? -x : x;
  const double power = functors::Exp(y * functors::Log(size));
  // Every float of at least 2**25 is even.
  const double y_size = y < 0 ? -y : y;
  const double counted = y_size > 33554432.0 ? 33554432.0 : y_size;
  const double half = counted * 0.5;
  const bool whole = (counted + kRound) - kRound == counted;
  const bool odd = whole & ((half + kRound) - kRound != half);
  const double with_sign = odd & (functors::detail::BitCast<int64_t>(x) < 0) ? -power : power;
  const bool undefined = (x < 0) & (x > -kInfinity) & !whole & (y == y);
  const double defined = undefined ? __builtin_nan("") : with_sign;
  // The result is 1 for an exponent of 0 or a base of 1, even if the other operand is NaN. The
  // result is also 1 for a base of -1 with an infinite exponent, where the formula yields NaN.
  const bool one = (x == 1) | (y == 0) | ((size == 1) & (y_size == kInfinity));
  return one ? 1.0 : defined;
}
OPWRIGHT_CPU_INLINE float PowerOf(float base, float exponent) {
  return static_cast<float>(WidePowerOf(base, exponent));
}

// For double, the logarithm would need more precision than double has, so the C library is used.
inline double PowerOf(double base, double exponent) { return std::pow(base, exponent); }

// Integers wrap around. The exponent must not be negative.
template <typename T>
T PowerOf(T base, T exponent) {
  // NOLINTBEGIN(bugprone-signed-char-misuse): sign extension is the wrap-around
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

// Powers with exponents that are common in networks are computed without a logarithm.
OPWRIGHT_CPU_PARAMETER_FUNCTION(PowerOfOne, 1, (T x), PowerOf(x, first));
OPWRIGHT_CPU_FUNCTION_1(SecondPower, x* x);
OPWRIGHT_CPU_FUNCTION_1(ThirdPower, x * x * x);
OPWRIGHT_CPU_FUNCTION_1(InversePower, T(1) / x);
// The square roots of -0 and -inf are -0 and NaN, but their powers are 0 and infinity.
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

// Computes factor * x**y, even if the power alone overflows or underflows.
OPWRIGHT_CPU_INLINE float TimesPower(double factor, float x, float y) {
  return static_cast<float>(factor * WidePowerOf(x, y));
}
inline double TimesPower(double factor, double x, double y) {
  const double power = std::pow(x, y);
  const double size = std::fabs(power);
  using Limits = std::numeric_limits<double>;
  if (size >= Limits::min() && size <= Limits::max()) return factor * power;
  if (std::isnan(power) || x == 0 || std::isinf(x)) return factor * power;
  const double root = std::pow(std::fabs(x), y / 2);
  return (std::signbit(power) ? -factor : factor) * root * root;
}

// Computes y x**(y - 1) times out_grad, which is 0 for the constant x**0 even if x is 0 or out_grad
// is infinite. If x**y is NaN, the derivative is NaN too, although y - 1 may round to an integer.
template <typename T>
OPWRIGHT_CPU_INLINE T GradOfBase(T x, T y, T out, T out_grad) {
  const double factor = static_cast<double>(y) * static_cast<double>(out_grad);
  const T derivative = TimesPower(factor, x, y - T(1));
  const T defined = out == out ? derivative : out;
  return y == T(0) ? T(0) : defined;
}
// Computes x**y ln(x) times out_grad. If x is 0 and y is not negative, the result is 0, the limit
// for y > 0.
template <typename T>
OPWRIGHT_CPU_INLINE T GradOfExponent(T x, T y, T out, T out_grad) {
  const T derivative = out * out_grad * functors::Log(x);
  return (x == T(0)) & (y >= T(0)) ? T(0) : derivative;
}

template <typename T, bool kOfBase>
OPWRIGHT_CPU_CLONES void PowerGradLoop(const T* x, const T* y, const T* out, const T* out_grad,
                                       T* grad, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    grad[i] = kOfBase ? GradOfBase(x[i], y[i], out[i], out_grad[i])
                      : GradOfExponent(x[i], y[i], out[i], out_grad[i]);
  }
}

// x, y, out, out_grad -> x_grad?, y_grad?. The gradient of a broadcast operand is summed in double
// by one thread.
template <typename T>
class PowerGradKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    n_ = ctx.input(2).numel();
    uint64_t n_sums = 0;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      operands_.emplace_back(ctx.input(2).shape(), ctx.input(slot).shape(),
                             static_cast<int64_t>(sizeof(T)));
      n_grad_[slot] = ctx.input(slot).numel();
      if (!operands_[slot].direct())
        n_sums = std::max(n_sums, static_cast<uint64_t>(n_grad_[slot]));
    }
    ctx.SetWorkspace(n_sums * sizeof(double));
    ctx.SetEstimate(static_cast<uint64_t>(20 + 10 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    if (ctx.has_output(0)) Compute<true>(ctx, 0);
    if (ctx.has_output(1)) Compute<false>(ctx, 1);
    return opwright::Status::Ok();
  }

 private:
  template <bool kOfBase>
  void Compute(const opwright::RunContext& ctx, uint32_t slot) const {
    T* grad = ctx.output(slot).data<T>();
    if (operands_[slot].direct()) {
      ParallelFor(ctx.n_threads(), n_, kBlock, kBlock, [&](int64_t begin, int64_t end) {
        VisitBlocks<kOfBase>(
            ctx, begin, end, [=](int64_t at) { return grad + at; },
            [](const T*, int64_t, int64_t) {});
      });
      return;
    }
    auto* sums = ctx.workspace<double>();
    std::fill_n(sums, n_grad_[slot], 0.0);
    T terms[kBlock];
    VisitBlocks<kOfBase>(
        ctx, 0, n_, [&](int64_t) { return terms; },
        [&](const T* block, int64_t at, int64_t count) {
          operands_[slot].AddTo(sums, block, at, count);
        });
    for (int64_t i = 0; i < n_grad_[slot]; ++i) grad[i] = static_cast<T>(sums[i]);
  }

  // Writes the terms of each block to target(position), then calls done(terms, position, count).
  template <bool kOfBase, typename Target, typename Done>
  void VisitBlocks(const opwright::RunContext& ctx, int64_t begin, int64_t end,
                   const Target& target, const Done& done) const {
    alignas(64) char buffers[2][kBufferBytes];
    const void* data[2] = {ctx.input(0).raw(), ctx.input(1).raw()};
    for (size_t i = 0; i < 2; ++i) operands_[i].Begin(data[i], end - begin, buffers[i]);
    for (int64_t at = begin; at < end;) {
      int64_t count = std::min(kBlock, end - at);
      const auto* x = static_cast<const T*>(operands_[0].Read(data[0], at, &count, buffers[0]));
      const auto* y = static_cast<const T*>(operands_[1].Read(data[1], at, &count, buffers[1]));
      T* const terms = target(at);
      PowerGradLoop<T, kOfBase>(x, y, ctx.input(2).data<T>() + at, ctx.input(3).data<T>() + at,
                                terms, count);
      done(terms, at, count);
      at += count;
    }
  }

  int64_t n_ = 0;
  int64_t n_grad_[2] = {};
  std::vector<Operand> operands_;
};

}  // namespace

void AddPowerFunctions(Functions& functions) {
  functions["pow_scalar"] = {&SelectPowerOfOne, 1, 2, nullptr};
}

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(pow_scalar, UnaryKernel<ExponentAttrs>, OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER(power, PowerKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("power_grad", "cpu", opwright_cpu::PowerGradKernel,
                             OPWRIGHT_CPU_FLOATS);
OPWRIGHT_CPU_REGISTER_WIDENED("power_grad", opwright_cpu::PowerGradKernel);
