// sort and argsort: a stable radix sort along one axis.
#include <algorithm>
#include <limits>

#include "along_axis/attributes.h"
#include "common/digit_sort.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// The input is x. The outputs of sort are `out` and `indices`; the output of argsort is `out`.
template <typename T, bool kValues>
struct SortKernel {
  using Key = typename UnsignedOf<sizeof(T)>::Type;
  using Item = Keyed<Key>;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const SortAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    if (sizeof(T) < 8 && lines_.length > std::numeric_limits<uint32_t>::max()) {
      return opwright::Status::Refused("sorts lines of at most 4294967295 elements, got ",
                                       lines_.length);
    }
    n_workers_ = static_cast<int32_t>(
        std::min<int64_t>(std::min<int64_t>(ctx.n_threads(), std::max<int64_t>(lines_.count(), 1)),
                          std::max<int64_t>(lines_.numel() / 4096, 1)));
    item_bytes_ = (2 * static_cast<uint64_t>(lines_.length) * sizeof(Item) + 63) / 64 * 64;
    ctx.SetWorkspace(item_bytes_ * static_cast<uint64_t>(n_workers_));
    ctx.SetEstimate(StreamNs(100 * lines_.numel(), n_workers_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const SortAttrs& attrs) const {
    if (lines_.numel() == 0) return opwright::Status::Ok();
    const T* x = ctx.input(0).data<T>();
    T* out = kValues ? static_cast<T*>(ctx.output(0).raw()) : nullptr;
    auto* indices = ctx.output(kValues ? 1 : 0).data<int64_t>();
    Parallel(n_workers_, [&](int32_t thread, int32_t n_threads) {
      auto* items = static_cast<Item*>(
          static_cast<void*>(ctx.workspace<char>() + item_bytes_ * static_cast<uint64_t>(thread)));
      const Part part = PartOf(lines_.count(), 1, thread, n_threads);
      for (int64_t line = part.begin; line < part.end; ++line) {
        const int64_t at = line / lines_.inner * lines_.length * lines_.inner + line % lines_.inner;
        SortLine(x + at, attrs.descending, items, kValues ? out + at : nullptr, indices + at);
      }
    });
    return opwright::Status::Ok();
  }

  void SortLine(const T* x, bool descending, Item* items, T* out, int64_t* indices) const {
    const int64_t n = lines_.length, stride = lines_.inner;
    const auto turn = static_cast<Key>(descending ? ~Key(0) : Key(0));
    for (int64_t i = 0; i < n; ++i) {
      const Key key = KeyOf<T, Key>(x[i * stride]);
      items[i] = Item{static_cast<Key>(key ^ turn), static_cast<decltype(Item::position)>(i)};
    }
    const Item* sorted = SortKeyed(items, items + n, n);
    for (int64_t i = 0; i < n; ++i) {
      const auto position = static_cast<int64_t>(sorted[i].position);
      indices[i * stride] = position;
      if constexpr (kValues) out[i * stride] = x[position * stride];
    }
  }

  Lines lines_;
  int32_t n_workers_ = 1;
  uint64_t item_bytes_ = 0;
};

template <typename T>
using SortValuesKernel = SortKernel<T, true>;
template <typename T>
using ArgsortKernel = SortKernel<T, false>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sort", "cpu", opwright_cpu::SortValuesKernel, OPWRIGHT_CPU_NUMBERS,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("argsort", "cpu", opwright_cpu::ArgsortKernel, OPWRIGHT_CPU_NUMBERS,
                             OPWRIGHT_CPU_HALVES);
