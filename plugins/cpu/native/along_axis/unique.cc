// unique: sorts, then keeps the first of each run of equal elements or slices.
#include <algorithm>
#include <limits>
#include <optional>

#include "common/digit_sort.h"
#include "common/half_rows.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

struct UniqueAttrs {
  std::optional<int64_t> axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

// Slots: x; out, index?, inverse?, counts?.
template <typename T>
struct UniqueKernel {
  using Key = typename UnsignedOf<sizeof(T)>::Type;
  using Item = Keyed<Key>;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const UniqueAttrs& attrs) {
    n_ = ctx.input(0).numel();
    if (attrs.axis.has_value()) {
      slices_ = LinesAlong(ctx.input(0).shape(), *attrs.axis);
      const auto n = static_cast<uint64_t>(slices_.length);
      ctx.SetWorkspace(n * sizeof(int64_t) + static_cast<uint64_t>(n_) * sizeof(Key));
      ctx.SetEstimate(static_cast<uint64_t>(20 + 50 * n_));
      return opwright::Status::Ok();
    }
    if (sizeof(T) < 8 && n_ > std::numeric_limits<uint32_t>::max()) {
      return opwright::Status::Refused("sorts at most 4294967295 elements, got ", n_);
    }
    ctx.SetWorkspace(2 * static_cast<uint64_t>(n_) * sizeof(Item));
    ctx.SetEstimate(static_cast<uint64_t>(20 + 50 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const UniqueAttrs& attrs) const {
    if (attrs.axis.has_value()) return RunSlices(ctx, *attrs.axis);
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

  // The sort is stable, so the first element of a run is also the first in x.
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

  opwright::Status RunSlices(const opwright::RunContext& ctx, int64_t axis) const {
    const T* x = ctx.input(0).data<T>();
    const int64_t n = slices_.length, size = slices_.count(), inner = slices_.inner;
    auto* order = ctx.workspace<int64_t>();
    Key* keys = static_cast<Key*>(static_cast<void*>(order + n));  // keys, slice by slice
    for (int64_t i = 0; i < n; ++i) {
      order[i] = i;
      for (int64_t k = 0; k < size; ++k)
        keys[i * size + k] = KeyOf<T, Key>(x[PlaceOf(slices_, k, i)]);
    }
    const auto is_same = [=](int64_t a, int64_t b) {
      return std::equal(keys + a * size, keys + (a + 1) * size, keys + b * size);
    };
    std::sort(order, order + n, [=](int64_t a, int64_t b) {
      const Key *first = keys + a * size, *second = keys + b * size;
      const auto differ = std::mismatch(first, first + size, second);
      return differ.first == first + size ? a < b : *differ.first < *differ.second;
    });
    int64_t count = n > 0;
    for (int64_t i = 1; i < n; ++i) count += !is_same(order[i - 1], order[i]);
    std::vector<int64_t> dims = ctx.input(0).shape().dims();
    dims[FromFront(axis, ctx.input(0).rank())] = count;
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape(dims)));
    for (uint32_t slot : {1u, 3u}) {
      if (ctx.has_output(slot)) OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(slot, opwright::Shape{count}));
    }
    T* out = ctx.output(0).template data<T>();
    int64_t* index = Find(ctx, 1);
    int64_t* inverse = Find(ctx, 2);
    int64_t* counts = Find(ctx, 3);
    int64_t run = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || !is_same(order[i - 1], order[i])) {
        ++run;
        for (int64_t k = 0; k < size; ++k) {
          out[(k / inner * count + run) * inner + k % inner] = x[PlaceOf(slices_, k, order[i])];
        }
        if (index != nullptr) index[run] = order[i];
        if (counts != nullptr) counts[run] = 0;
      }
      if (inverse != nullptr) inverse[order[i]] = run;
      if (counts != nullptr) ++counts[run];
    }
    return opwright::Status::Ok();
  }

  int64_t n_ = 0;
  Lines slices_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("unique", "cpu", opwright_cpu::UniqueKernel, OPWRIGHT_CPU_NUMBERS,
                             OPWRIGHT_CPU_HALVES, bool);
