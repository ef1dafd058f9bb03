// The implementation of Reducer, for the files that instantiate it, one for each kind of rule.
#ifndef OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_
#define OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_

#include "reduction/reducer.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "reduction/eight_elements.h"

namespace opwright_cpu {
namespace reducer {

// The width of a strip of columns, which fits into the L1 cache, and the number of rows that are
// summed separately so that long columns lose less precision.
constexpr int64_t kStrip = 2048;
constexpr int64_t kStripRows = 256;

// Reduces rows to the row `out`, eight rows at a time, so `out` is read and written less often.
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void FoldRows(const In* x, int64_t n_rows, int64_t stride, int64_t width,
                                  T* __restrict__ out) {
  for (int64_t c = 0; c < width; ++c) out[c] = Rule::Of(x[c]);
  int64_t row = 1;
  for (; row + 8 <= n_rows; row += 8) {
    const In* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) {
      const In* q = p + c;
      const auto at = [q, stride](int64_t i) OPWRIGHT_CPU_TERM { return q[i * stride]; };
      out[c] = Rule::Combine(out[c], EightElements<T, Rule, In>::Combine(at));
    }
  }
  for (; row < n_rows; ++row) {
    const In* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], Rule::Of(p[c]));
  }
}

// Not part of FoldRows, so that element types with the same result type share one instance.
template <typename T, typename Rule>
OPWRIGHT_CPU_CLONES void JoinRows(const T* x, int64_t width, T* __restrict__ out) {
  for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], x[c]);
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void FoldStrip(const In* x, int64_t n_rows, int64_t stride, int64_t width,
                                   T* out) {
  FoldRows<T, Rule>(x, std::min(n_rows, kStripRows), stride, width, out);
  T block[kStrip];
  for (int64_t row = kStripRows; row < n_rows; row += kStripRows) {
    FoldRows<T, Rule>(x + row * stride, std::min(n_rows - row, kStripRows), stride, width, block);
    JoinRows<T, Rule>(block, width, out);
  }
}

// Computes results [begin, end) out of outer * inner results, and merges narrow rows.
template <typename T, typename Rule, typename In>
void ReduceColumns(const void* array, int64_t length, int64_t inner, int64_t begin, int64_t end,
                   void* results) {
  const auto* x = static_cast<const In*>(array);
  auto* out = static_cast<T*>(results);
  T wide[4 * kNarrow];
  while (begin < end) {
    const int64_t outer = begin / inner;
    const int64_t column = begin % inner;
    const int64_t width = std::min(std::min(inner - column, end - begin), kStrip);
    const In* from = x + outer * length * inner + column;
    const bool join = width == inner && inner <= kNarrow && length * inner >= 4 * kNarrow;
    const int64_t joined = join ? 4 * kNarrow / width : 1;
    const int64_t whole = length / joined;
    FoldStrip<T, Rule>(from, whole, joined * inner, joined * width, join ? wide : out + begin);
    if (join) {
      for (int64_t c = 0; c < width; ++c) {
        T total = wide[c];
        for (int64_t i = 1; i < joined; ++i) total = Rule::Combine(total, wide[i * width + c]);
        for (int64_t i = whole * joined; i < length; ++i) {
          total = Rule::Combine(total, Rule::Of(from[i * width + c]));
        }
        out[begin + c] = total;
      }
    }
    begin += width;
  }
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void ReduceRows(const void* from, int64_t n_rows, int64_t length, void* to) {
  const auto* x = static_cast<const In*>(from);
  auto* out = static_cast<T*>(to);
  for (int64_t i = 0; i < n_rows; ++i) out[i] = Rule::Row(x + i * length, length);
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void Convert(const In* x, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Rule::Of(x[i]);
}

template <typename T, typename Rule, typename In>
Loops LoopsOf() {
  return {sizeof(In), &ReduceRows<T, Rule, In>, &ReduceColumns<T, Rule, In>};
}

// Rule for reducing the results of a rule: Rest if the rule declares it, otherwise the rule itself.
template <typename Rule, typename = void>
struct RestOf {
  using Type = Rule;
};
template <typename Rule>
struct RestOf<Rule, std::void_t<typename Rule::Rest>> {
  using Type = typename Rule::Rest;
};

}  // namespace reducer

template <typename T, typename Rule, typename In>
void Reducer<T, Rule, In>::Run(const In* x, T* out, void* workspace, int32_t n_threads) const {
  using Rest = typename reducer::RestOf<Rule>::Type;
  if (!stages_.is_empty()) {
    stages_.Run(reducer::LoopsOf<T, Rule, In>(), reducer::LoopsOf<T, Rest, T>(), x, out, workspace,
                n_threads);
    return;
  }
  ParallelFor(n_threads, stages_.numel(), kElementGrain, 64, [=](int64_t begin, int64_t end) {
    reducer::Convert<T, Rule>(x + begin, end - begin, out + begin);
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_
