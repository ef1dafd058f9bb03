// sort and argsort along one axis: by digits, which keeps the order of equal elements.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

// Lines shorter than this are sorted by comparisons: counting digits costs as much as they.
constexpr int64_t kShort = 512;
constexpr int kDigitBits = 11;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = uint64_t;
};

// An unsigned number that is in the order of the elements: of floats the sign turns all other bits
// over, both zeros are one number, and NaN is the greatest.
template <typename T, typename Key>
Key KeyOf(T x) {
  constexpr Key kSign = static_cast<Key>(Key(1) << (8 * sizeof(Key) - 1));
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return std::numeric_limits<Key>::max();
    const T number = x == T(0) ? T(0) : x;
    Key bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<Key>(x) ^ kSign);
  } else {
    return x;
  }
}

template <typename Key>
struct Keyed {
  Key key;
  // As wide as the key where that suffices: less memory is moved.
  std::conditional_t<sizeof(Key) == 8, int64_t, uint32_t> position;
};

// One pass over `n` elements: those of equal digits stay in order.
template <typename Key>
void SortByDigit(const Keyed<Key>* from, int64_t n, int shift, const int64_t* counts,
                 Keyed<Key>* to) {
  int64_t starts[kDigits];
  int64_t start = 0;
  for (int64_t digit = 0; digit < kDigits; ++digit) {
    starts[digit] = start;
    start += counts[digit];
  }
  for (int64_t i = 0; i < n; ++i) to[starts[(from[i].key >> shift) & (kDigits - 1)]++] = from[i];
}

// Returns which of the two buffers the result is in.
template <typename Key>
Keyed<Key>* SortKeyed(Keyed<Key>* items, Keyed<Key>* other, int64_t n) {
  if (n < kShort) {
    std::sort(items, items + n, [](const Keyed<Key>& a, const Keyed<Key>& b) {
      return a.key != b.key ? a.key < b.key : a.position < b.position;
    });
    return items;
  }
  constexpr int kBits = 8 * static_cast<int>(sizeof(Key));
  constexpr int kPasses = (kBits + kDigitBits - 1) / kDigitBits;
  int64_t counts[kPasses][kDigits] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < kPasses; ++pass) {
      ++counts[pass][(items[i].key >> (pass * kDigitBits)) & (kDigits - 1)];
    }
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const int shift = pass * kDigitBits;
    if (counts[pass][(items[0].key >> shift) & (kDigits - 1)] == n) continue;  // one digit only
    SortByDigit(items, n, shift, counts[pass], other);
    std::swap(items, other);
  }
  return items;
}

// Slots: x; out and indices of sort, out of argsort.
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

OPWRIGHT_REGISTER_KERNEL_FOR("sort", "cpu", opwright_cpu::SortValuesKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("sort", opwright_cpu::SortValuesKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("argsort", "cpu", opwright_cpu::ArgsortKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("argsort", opwright_cpu::ArgsortKernel);
