// Operators that copy a tensor or fill it with one value.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/attributes.h"
#include "common/half.h"
#include "common/parallel.h"
#include "common/stream.h"
#include "elementwise/attributes.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kByteGrain = kElementGrain * 4;

int64_t BytesOf(const opwright::Meta& meta) { return meta.numel() * ((meta.dtype().bits + 7) / 8); }

class AssignKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { SetReuse(options, "out", {"x"}); }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    bytes_ = BytesOf(ctx.output(0));
    ctx.SetEstimate(EstimateNs(bytes_ / 4, 2.0 * static_cast<double>(bytes_), 0, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const char* x = static_cast<const char*>(ctx.input(0).raw());
    char* out = static_cast<char*>(ctx.output(0).raw());
    if (x == out) return opwright::Status::Ok();
    ParallelFor(ctx.n_threads(), bytes_, kByteGrain, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(out + begin, x + begin, static_cast<size_t>(end - begin));
    });
    return opwright::Status::Ok();
  }

 private:
  int64_t bytes_ = 0;
};

// Writes the value as an item of the dtype. Returns false if the dtype cannot represent the value,
// because the conversion would be undefined.
template <typename T>
bool MakeItem(double value, char* item) {
  if constexpr (std::is_integral_v<T>) {
    const double whole = std::trunc(value);
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(whole < end && whole >= (std::is_signed_v<T> ? -end : 0.0))) return false;
    value = whole;
  }
  const T made = static_cast<T>(value);
  std::memcpy(item, &made, sizeof(made));
  return true;
}

template <typename... Dtypes>
bool MakeItemOf(DLDataType dtype, double value, char* item) {
  return (
      (opwright::SameDtype(dtype, opwright::DtypeOf<Dtypes>()) && MakeItem<Dtypes>(value, item)) ||
      ...);
}

bool MakeAnyItem(DLDataType dtype, double value, char* item) {
  if (dtype.code == kDLBool) {
    *item = static_cast<char>(value != 0);
    return true;
  }
  uint16_t half = 0;
  if (dtype.code == kDLBfloat) {
    half = BFloat16OfFloat(static_cast<float>(value));
  } else if (dtype.code == kDLFloat && dtype.bits == 16) {
    half = Float16OfDouble(value);
  } else {
    return MakeItemOf<OPWRIGHT_CPU_NUMBERS>(dtype, value, item);
  }
  std::memcpy(item, &half, sizeof(half));
  return true;
}

class FillKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const FillAttrs& attrs) {
    const DLDataType dtype = ctx.output(0).dtype();
    char item[kMaxItemBytes] = {};
    if (!MakeAnyItem(dtype, attrs.value, item)) {
      return opwright::Status::Refused(opwright::DtypeName(dtype), " cannot hold ", attrs.value);
    }
    const int64_t item_bytes = (dtype.bits + 7) / 8;
    for (int64_t i = 0; i < kPattern; i += item_bytes) {
      std::memcpy(pattern_.data() + i, item, static_cast<size_t>(item_bytes));
    }
    bytes_ = BytesOf(ctx.output(0));
    ctx.SetEstimate(EstimateNs(bytes_ / 4, static_cast<double>(bytes_), 0, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const FillAttrs&) const {
    char* out = static_cast<char*>(ctx.output(0).raw());
    ParallelFor(ctx.n_threads(), bytes_, kByteGrain, kPattern, [&](int64_t begin, int64_t end) {
      const bool stream = bytes_ >= kStreamBytes;
      for (int64_t i = begin; i < end; i += kPattern) {
        const int64_t count = std::min(kPattern, end - i);
        if (stream) {
          StreamBlock(pattern_.data(), out + i, count);
        } else {
          std::memcpy(out + i, pattern_.data(), static_cast<size_t>(count));
        }
      }
      if (stream) StreamFence();
    });
    return opwright::Status::Ok();
  }

 private:
  static constexpr int64_t kPattern = 2048;

  int64_t bytes_ = 0;
  alignas(64) std::array<char, kPattern> pattern_{};
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(assign, AssignKernel, opwright::AnyDtype, opwright::NarrowDtypes);
OPWRIGHT_CPU_REGISTER(bit_cast, AssignKernel, opwright::AnyDtype);
OPWRIGHT_CPU_REGISTER(fill, FillKernel, opwright::AnyDtype);
OPWRIGHT_CPU_REGISTER(fill_like, FillKernel, opwright::AnyDtype);
