// searchsorted: binary search without data-dependent branches.
#include <algorithm>
#include <cstdint>
#include <string>

#include "along_axis/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/blocks.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Compares two elements; NaN is greater than every number and equal to NaN.
template <typename T>
bool IsLess(T x, T y) {
  return (x < y) | ((x == x) & (y != y));
}

// Returns how many of the n elements are less than the value or, if kRight, not greater than it.
template <bool kRight, typename T>
int64_t CountBefore(const T* x, int64_t n, T value) {
  const auto is_before = [value](T element) {
    return static_cast<int64_t>(kRight ? !IsLess(value, element) : IsLess(element, value));
  };
  if (n == 0) return 0;
  const T* base = x;
  while (n > 1) {
    const int64_t half = n / 2;
    base += half * is_before(base[half - 1]);
    n -= half;
  }
  return base - x + is_before(*base);
}

// Searches for several values at a time so that the searches overlap. Values must not be NaN, and n
// must be at least 1.
constexpr int64_t kTogether = 16;
template <bool kRight, typename T>
OPWRIGHT_CPU_CLONES void CountTogether(const T* x, int64_t n, const T* values, int64_t* counts) {
  const auto is_before = [](T element, T value) OPWRIGHT_CPU_TERM {
    return kRight ? element <= value : element < value;
  };
  for (int64_t i = 0; i < kTogether; ++i) counts[i] = 0;
  for (; n > 1; n -= n / 2) {
    const int64_t half = n / 2;
    for (int64_t i = 0; i < kTogether; ++i) {
      counts[i] += is_before(x[counts[i] + half - 1], values[i]) ? half : 0;
    }
  }
  for (int64_t i = 0; i < kTogether; ++i) counts[i] += is_before(x[counts[i]], values[i]) ? 1 : 0;
}

template <typename T>
bool HasNoNan(const T* values) {
  bool has_none = true;
  for (int64_t i = 0; i < kTogether; ++i) has_none &= values[i] == values[i];
  return has_none;
}

// Slots: x, values; out.
template <typename T>
struct SearchsortedKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const SearchsortedAttrs& attrs) {
    n_ = ctx.input(0).dim(-1);
    n_values_ = ctx.input(1).shape().numel();
    row_ = attrs.rows ? ctx.input(1).dim(-1) : std::max<int64_t>(n_values_, 1);
    for (int64_t n = n_; n > 0; n /= 2) ++n_steps_;
    ctx.SetEstimate(StreamNs(8 * (n_steps_ + 1) * n_values_, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const SearchsortedAttrs& attrs) const {
    if (attrs.dtype == "int32") {
      Search(ctx, attrs, ctx.output(0).template data<int32_t>());
    } else {
      Search(ctx, attrs, ctx.output(0).template data<int64_t>());
    }
    return opwright::Status::Ok();
  }

  template <typename Out>
  void Search(const opwright::RunContext& ctx, const SearchsortedAttrs& attrs, Out* out) const {
    const T* x = ctx.input(0).template data<T>();
    const T* values = ctx.input(1).template data<T>();
    const int64_t grain = kElementGrain / (n_steps_ + 1) + 1;
    const bool is_right = attrs.side == "right";
    ParallelFor(ctx.n_threads(), n_values_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const T* row = x + i / row_ * n_;
        const int64_t left = std::min(end, (i / row_ + 1) * row_) - i;
        if (left >= kTogether && n_ > 0 && HasNoNan(values + i)) {
          int64_t counts[kTogether];
          is_right ? CountTogether<true>(row, n_, values + i, counts)
                   : CountTogether<false>(row, n_, values + i, counts);
          for (const int64_t count : counts) out[i++] = static_cast<Out>(count);
          continue;
        }
        const int64_t next = i + std::min(left, kTogether);
        for (; i < next; ++i) {
          out[i] = static_cast<Out>(is_right ? CountBefore<true>(row, n_, values[i])
                                             : CountBefore<false>(row, n_, values[i]));
        }
      }
    });
  }

  int64_t n_ = 0;
  int64_t n_values_ = 0;
  int64_t row_ = 1;  // number of values searched in each row of x
  int64_t n_steps_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("searchsorted", "cpu", opwright_cpu::SearchsortedKernel,
                             OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("searchsorted", opwright_cpu::SearchsortedKernel);
