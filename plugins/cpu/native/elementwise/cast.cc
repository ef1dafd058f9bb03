// cast: conversions between all pairs of dtypes.
#include <algorithm>
#include <array>

#include <opwright/functors/float8.h>

#include "common/attributes.h"
#include "common/half.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

using opwright::functors::Float8E4M3FnFormat;
using opwright::functors::Float8E5M2Format;
using opwright::functors::Float8OfFloat;
using opwright::functors::FloatOfFloat8;
using opwright::functors::OddFloatOfDouble;

// The conversion of a float that is out of the range of an integer type is undefined in C++. As in
// NumPy, such a float is converted to the signed type that processors use, keeping the low bits.
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

// Integers are truncated, or extended according to the signedness of the source type.
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

// Selects a conversion between dtypes that are C++ types.
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

template <typename Format>
OPWRIGHT_CPU_CLONES void FromFloat8Loop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const uint8_t*>(x);
  auto* to = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = FloatOfFloat8<Format>(from[i]);
}

template <typename Format>
OPWRIGHT_CPU_CLONES void ToFloat8Loop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Float8OfFloat<Format>(from[i]);
}

template <typename Format>
OPWRIGHT_CPU_CLONES void Float8OfDoubleLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const double*>(x);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Float8OfFloat<Format>(OddFloatOfDouble(from[i]));
}

// Only the low half of a byte is used for 4-bit integers, as in ml_dtypes.
template <typename To>
OPWRIGHT_CPU_INLINE To OfFourBits(uint8_t byte) {
  const auto low = static_cast<uint8_t>(byte & 15u);
  return static_cast<To>(std::is_signed_v<To> ? (low ^ 8) - 8 : low);
}

template <typename Whole>
OPWRIGHT_CPU_CLONES void FromFourBitsLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const uint8_t*>(x);
  auto* to = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(OfFourBits<Whole>(from[i]));
}

template <typename From>
OPWRIGHT_CPU_CLONES void ToFourBitsLoop(const void* x, void* out, int64_t n) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(Convert<uint8_t>(from[i]) & 15u);
}

bool IsE4M3Fn(DLDataType dtype) { return dtype.code == kDLFloat8_e4m3fn; }
bool IsFloat8(DLDataType dtype) { return IsE4M3Fn(dtype) || dtype.code == kDLFloat8_e5m2; }
bool IsFourBits(DLDataType dtype) { return dtype.bits == 4; }

// Returns whether the dtype is converted through float, because C++ has no such type.
bool IsConverted(DLDataType dtype) { return IsHalf(dtype) || IsFloat8(dtype) || IsFourBits(dtype); }

Conversion SelectToFloat(DLDataType from) {
  if (IsE4M3Fn(from)) return &FromFloat8Loop<Float8E4M3FnFormat>;
  if (IsFloat8(from)) return &FromFloat8Loop<Float8E5M2Format>;
  if (IsFourBits(from)) {
    return from.code == kDLInt ? &FromFourBitsLoop<int8_t> : &FromFourBitsLoop<uint8_t>;
  }
  return from.code == kDLBfloat ? &WidenLoop<opwright::BFloat16> : &WidenLoop<opwright::Float16>;
}

Conversion SelectFromFloat(DLDataType to) {
  if (IsE4M3Fn(to)) return &ToFloat8Loop<Float8E4M3FnFormat>;
  if (IsFloat8(to)) return &ToFloat8Loop<Float8E5M2Format>;
  if (IsFourBits(to)) return &ToFourBitsLoop<float>;
  return to.code == kDLBfloat ? &NarrowLoop<opwright::BFloat16> : &NarrowLoop<opwright::Float16>;
}

// Selects a direct conversion from double, since conversion through float would round twice.
// Returns null if rounding twice makes no difference.
Conversion SelectFromDouble(DLDataType to) {
  if (IsE4M3Fn(to)) return &Float8OfDoubleLoop<Float8E4M3FnFormat>;
  if (IsFloat8(to)) return &Float8OfDoubleLoop<Float8E5M2Format>;
  return to.code == kDLFloat && to.bits == 16 ? &Float16OfDoubleLoop : nullptr;
}

// A single conversion, or two conversions through an intermediate float or byte.
struct Route {
  Conversion first = nullptr;
  Conversion second = nullptr;
};

Route FindRoute(DLDataType from, DLDataType to) {
  const DLDataType middle = opwright::DtypeOf<float>();
  if (opwright::SameDtype(from, to)) {
    if (IsHalf(from)) return {&CopyLoop<uint16_t>, nullptr};
    return {IsConverted(from) ? &CopyLoop<uint8_t> : SelectDirect(from, to), nullptr};
  }
  if (opwright::SameDtype(from, opwright::DtypeOf<double>())) {
    if (const Conversion direct = SelectFromDouble(to)) return {direct, nullptr};
  }
  const bool from_float = opwright::SameDtype(from, middle);
  const bool to_float = opwright::SameDtype(to, middle);
  if (IsConverted(from) && to_float) return {SelectToFloat(from), nullptr};
  if (from_float && IsConverted(to)) return {SelectFromFloat(to), nullptr};
  if (IsConverted(from)) {
    return {SelectToFloat(from), IsConverted(to) ? SelectFromFloat(to) : SelectDirect(middle, to)};
  }
  if (IsFourBits(to) && from.code != kDLFloat) {  // integers can have more bits than float
    return {SelectDirect(from, opwright::DtypeOf<uint8_t>()), &ToFourBitsLoop<uint8_t>};
  }
  if (IsConverted(to)) return {SelectDirect(from, middle), SelectFromFloat(to)};
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
      return opwright::Status::Refused("does not convert ", opwright::DtypeName(from), " to ",
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

OPWRIGHT_CPU_REGISTER(cast, CastKernel, opwright::AnyDtype, opwright::NarrowDtypes);
OPWRIGHT_CPU_REGISTER(cast_like, CastKernel, opwright::AnyDtype, opwright::NarrowDtypes);
