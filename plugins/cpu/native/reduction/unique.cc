// unique: the first of each run of equal elements, which a sort puts beside each other.
#include <limits>

#include "common/digit_sort.h"
#include "common/half_rows.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Slots: x; out, index, inverse, counts, of which the last three may be absent.
template <typename T>
struct UniqueKernel {
  using Key = typename UnsignedOf<sizeof(T)>::Type;
  using Item = Keyed<Key>;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    n_ = ctx.input(0).numel();
    if (sizeof(T) < 8 && n_ > std::numeric_limits<uint32_t>::max()) {
      return opwright::Status::Refused("sorts at most 4294967295 elements, got ", n_);
    }
    ctx.SetWorkspace(2 * static_cast<uint64_t>(n_) * sizeof(Item));
    ctx.SetEstimate(static_cast<uint64_t>(20 + 50 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    auto* items = ctx.workspace<Item>();
    for (int64_t i = 0; i < n_; ++i) {
      items[i] = Item{KeyOf<T, Key>(x[i]), static_cast<decltype(Item::position)>(i)};
    }
    const Item* sorted = n_ == 0 ? items : SortKeyed(items, items + n_, n_);
    int64_t count = n_ > 0;
    for (int64_t i = 1; i < n_; ++i) count += sorted[i].key != sorted[i - 1].key;
    for (uint32_t slot : {0u, 1u, 3u}) {
      if (!ctx.has_output(slot)) continue;
      OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(slot, opwright::Shape{count}));
    }
    if (n_ > 0) Write(ctx, x, sorted);
    return opwright::Status::Ok();
  }

 private:
  static int64_t* Find(const opwright::RunContext& ctx, uint32_t slot) {
    return ctx.has_output(slot) ? ctx.output(slot).template data<int64_t>() : nullptr;
  }

  // Equal elements are in the order of their positions: the first of a run is the first in x.
  void Write(const opwright::RunContext& ctx, const T* x, const Item* sorted) const {
    T* out = ctx.output(0).template data<T>();
    int64_t* index = Find(ctx, 1);
    int64_t* inverse = Find(ctx, 2);
    int64_t* counts = Find(ctx, 3);
    int64_t run = 0;
    for (int64_t begin = 0, end = 0; begin < n_; begin = end, ++run) {
      const auto first = static_cast<int64_t>(sorted[begin].position);
      out[run] = x[first];
      for (; end < n_ && sorted[end].key == sorted[begin].key; ++end) {
        if (inverse != nullptr) inverse[sorted[end].position] = run;
      }
      if (index != nullptr) index[run] = first;
      if (counts != nullptr) counts[run] = end - begin;
    }
  }

  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("unique", "cpu", opwright_cpu::UniqueKernel, OPWRIGHT_CPU_NUMBERS,
                             OPWRIGHT_CPU_HALVES, bool);
