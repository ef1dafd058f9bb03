// The same values in another dtype, all pairs of them.
#include <algorithm>
#include <array>

#include "common/half.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

// C++ does not define the conversion of a float that an integer type does not hold. As in NumPy, it
// is converted to the signed type that processors convert to, of which the low bits are kept.
template <typename To, typename From>
OPWRIGHT_CPU_INLINE To Convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = From(9223372036854775808.0);
    const bool high = x >= kHalf;
    const auto low = static_cast<uint64_t>(static_cast<int64_t>(high ? x - kHalf : x));
    return high ? low ^ (uint64_t{1} << 63) : low;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr bool kNarrow = sizeof(To) < sizeof(int32_t) || std::is_same_v<To, int32_t>;
    using Middle = std::conditional_t<kNarrow, int32_t, int64_t>;
    return static_cast<To>(static_cast<Middle>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
OPWRIGHT_CPU_CLONES void CastLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Convert<To>(from[i]);
}

template <typename From>
OPWRIGHT_CPU_CLONES void TruthLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i] != From(0));
}

OPWRIGHT_CPU_CLONES void Float16OfDoubleLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const double*>(x);
  auto* to = static_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Float16OfDouble(from[i]);
}

template <typename Item>
void CopyLoop(const void* x, void* out, int64_t n) {
  std::copy_n(static_cast<const Item*>(x), n, static_cast<Item*>(out));
}

using Conversion = void (*)(const void* x, void* out, int64_t n);

// Integers lose their high bits, or are extended by the sign of the type that they had.
template <typename From, typename To>
Conversion SelectPair() {
  constexpr bool kWhole = std::is_integral_v<From> && std::is_integral_v<To>;
  if constexpr (kWhole && sizeof(From) == sizeof(To)) {
    return &CopyLoop<BitsOf<To>>;
  } else if constexpr (kWhole && sizeof(From) > sizeof(To)) {
    return &CastLoop<BitsOf<From>, BitsOf<To>>;
  } else if constexpr (kWhole) {
    return &CastLoop<From, BitsOf<To>>;
  } else if constexpr (std::is_same_v<From, To>) {
    return &CopyLoop<From>;
  } else {
    return &CastLoop<From, To>;
  }
}

template <typename From, typename... Dtypes>
Conversion SelectTo(DLDataType to) {
  if (to.code == kDLBool) return &TruthLoop<BitsOf<From>>;
  Conversion conversion = nullptr;
  ((opwright::SameDtype(to, opwright::DtypeOf<Dtypes>()) ? conversion = SelectPair<From, Dtypes>()
                                                         : conversion),
   ...);
  return conversion;
}

template <typename... Dtypes>
Conversion SelectFrom(DLDataType from, DLDataType to) {
  Conversion conversion = nullptr;
  ((opwright::SameDtype(from, opwright::DtypeOf<Dtypes>())
        ? conversion = SelectTo<Dtypes, OPWRIGHT_CPU_NUMBERS>(to)
        : conversion),
   ...);
  return conversion;
}

// Between dtypes that are types of C++.
Conversion SelectDirect(DLDataType from, DLDataType to) {
  if (from.code == kDLBool && to.code == kDLBool) return &CopyLoop<uint8_t>;
  if (from.code == kDLBool) from.code = kDLUInt;
  return SelectFrom<OPWRIGHT_CPU_NUMBERS>(from, to);
}

template <typename Half>
void WidenLoop(const void* x, void* out, int64_t n) {
  HalfRowsOf(opwright::DtypeOf<Half>()).widen(x, static_cast<float*>(out), n);
}

template <typename Half>
void NarrowLoop(const void* x, void* out, int64_t n) {
  HalfRowsOf(opwright::DtypeOf<Half>()).narrow(static_cast<const float*>(x), out, n);
}

Conversion SelectToFloat(DLDataType from) {
  return from.code == kDLBfloat ? &WidenLoop<opwright::BFloat16> : &WidenLoop<opwright::Float16>;
}

Conversion SelectFromFloat(DLDataType to) {
  return to.code == kDLBfloat ? &NarrowLoop<opwright::BFloat16> : &NarrowLoop<opwright::Float16>;
}

// One conversion, or two with floats between them.
struct Route {
  Conversion first = nullptr;
  Conversion second = nullptr;
};

Route FindRoute(DLDataType from, DLDataType to) {
  const DLDataType middle = opwright::DtypeOf<float>();
  if (opwright::SameDtype(from, to)) {
    return {IsHalf(from) ? &CopyLoop<uint16_t> : SelectDirect(from, to), nullptr};
  }
  if (from.code == kDLFloat && from.bits == 64 && to.code == kDLFloat && to.bits == 16) {
    return {&Float16OfDoubleLoop, nullptr};
  }
  const bool from_float = opwright::SameDtype(from, middle);
  const bool to_float = opwright::SameDtype(to, middle);
  if (IsHalf(from) && to_float) return {SelectToFloat(from), nullptr};
  if (from_float && IsHalf(to)) return {SelectFromFloat(to), nullptr};
  if (IsHalf(from)) {
    return {SelectToFloat(from), IsHalf(to) ? SelectFromFloat(to) : SelectDirect(middle, to)};
  }
  if (IsHalf(to)) return {SelectDirect(from, middle), SelectFromFloat(to)};
  return {SelectDirect(from, to), nullptr};
}

class CastKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const DLDataType from = ctx.input(0).dtype();
    const DLDataType to = ctx.output(0).dtype();
    n_ = ctx.output(0).numel();
    from_bytes_ = (from.bits + 7) / 8;
    to_bytes_ = (to.bits + 7) / 8;
    route_ = FindRoute(from, to);
    if (route_.first == nullptr) {
      return opwright::Status::Refused("no conversion of ", opwright::DtypeName(from), " to ",
                                       opwright::DtypeName(to));
    }
    ctx.SetEstimate(
        EstimateNs(n_, static_cast<double>(n_ * (from_bytes_ + to_bytes_)), 0.2, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const char* x = static_cast<const char*>(ctx.input(0).raw());
    char* out = static_cast<char*>(ctx.output(0).raw());
    ParallelFor(ctx.n_threads(), n_, kElementGrain, kBlock, [&](int64_t begin, int64_t end) {
      RunPart(x + begin * from_bytes_, out + begin * to_bytes_, end - begin);
    });
    return opwright::Status::Ok();
  }

 private:
  void RunPart(const char* x, char* out, int64_t n) const {
    if (route_.second == nullptr) return route_.first(x, out, n);
    std::array<float, kBlock> middle;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      route_.first(x + i * from_bytes_, middle.data(), count);
      route_.second(middle.data(), out + i * to_bytes_, count);
    }
  }

  int64_t n_ = 0;
  int64_t from_bytes_ = 0;
  int64_t to_bytes_ = 0;
  Route route_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(cast, CastKernel, opwright::AnyDtype);
OPWRIGHT_CPU_REGISTER(cast_like, CastKernel, opwright::AnyDtype);
