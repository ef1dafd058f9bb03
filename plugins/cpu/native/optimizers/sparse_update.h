// Code shared by the sparse optimizers. Rows that occur in lookups are updated by the rules of the
// dense optimizers. Each row is updated once, by one thread.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_SPARSE_UPDATE_H_
#define OPWRIGHT_CPU_OPTIMIZERS_SPARSE_UPDATE_H_

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "common/half_rows.h"
#include "optimizers/touched_rows.h"
#include "optimizers/update.h"

namespace opwright_cpu {

// The attributes of the rule and of the lookups.
template <typename RuleAttrs>
struct SparseAttrs {
  RuleAttrs rule;
  std::vector<int64_t> padding_indices;
  opwright::Status Read(const opwright::AttributeReader& reader) {
    OPWRIGHT_RETURN_IF_ERROR(rule.Read(reader));
    return reader.GetArray("padding_indices", &padding_indices);
  }
};

// The inputs are param [ids, size], lists of rows and values, learning_rate, the states and the
// scalars; the outputs are as in UpdateKernel. For half precision, updates are computed in float
// and rounded once; rows are widened one by one.
template <template <typename> class RuleOf, typename T>
struct SparseUpdateKernel {
  static constexpr bool kIsHalf = !std::is_floating_point_v<T>;
  using C = std::conditional_t<kIsHalf, float, T>;
  using Rule = RuleOf<C>;
  using Attrs = SparseAttrs<typename Rule::Attrs>;
  using Factors = typename Rule::Factors;
  using Slots = StepSlots<Rule, 3>;
  static constexpr uint32_t kTables = 1 + Rule::kStates;  // param and states
  // The number of scratch rows: one for the summed values of a row and, in half precision, one for
  // a widened value and one per table for a widened row.
  static constexpr uint32_t kScratch = kIsHalf ? 2 + kTables : 1;
  static constexpr int64_t kAhead = 8;     // prefetch distance in rows
  static constexpr int64_t kGrain = 8192;  // minimum number of elements per thread

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    count_ = ctx.input(0).shape().dims()[0];
    size_ = ctx.input(0).shape().dims()[1];
    firsts_.assign(1, 0);
    for (uint32_t i = 0; i < ctx.input_count(1); ++i) {
      firsts_.push_back(firsts_.back() + ctx.input(1, i).numel());
    }
    if (firsts_.back() > INT32_MAX) {
      return opwright::Status::Refused("takes at most ", INT32_MAX, " lookups, got ",
                                       firsts_.back());
    }
    const int64_t elements = firsts_.back() * size_;
    threads_ = static_cast<int32_t>(
        std::clamp<int64_t>(elements / kGrain, 1, std::max(ctx.n_threads(), 1)));
    if constexpr (kIsHalf) half_rows_ = HalfRowsOf(ctx.input(0).dtype());
    ctx.SetWorkspace(ScratchBytes() * static_cast<uint64_t>(threads_) +
                     TouchedRows::WorkspaceBytes(firsts_.back()));
    // Random access to rows of the table takes a few times as long as sequential access.
    ctx.SetEstimate(
        4 *
        MoveNanoseconds(elements * static_cast<int64_t>((1 + 2 * kTables) * sizeof(T)), threads_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs) const {
    char* scratch = ctx.workspace<char>();
    TouchedRows touched(firsts_.back(), scratch + ScratchBytes() * static_cast<uint64_t>(threads_));
    for (uint32_t i = 0; i < ctx.input_count(1); ++i) {
      const int64_t first = firsts_[i];
      const Positions index(ctx.input(1, i), firsts_[i + 1] - first);
      OPWRIGHT_RETURN_IF_ERROR(index.Check("rows", 0, count_));
      const int64_t skipped = attrs.padding_indices.empty() ? -1 : attrs.padding_indices[i];
      touched.Take(index, firsts_[i + 1] - first, first, skipped);
    }
    const Factors factors = Rule::FactorsOf(attrs.rule, Slots::Read(ctx, 0));
    if (size_ > 0) {
      Parallel(threads_, [&](int32_t thread, int32_t threads) {
        auto* own = reinterpret_cast<C*>(scratch + ScratchBytes() * static_cast<uint64_t>(thread));
        UpdateRows(ctx, factors, touched, touched.Find(thread, threads), own);
      });
    }
    Slots::Advance(ctx, attrs.rule, 0);
    return opwright::Status::Ok();
  }

 private:
  // Returns the scratch memory of one thread, rounded up to complete cache lines.
  uint64_t ScratchBytes() const {
    return (kScratch * static_cast<uint64_t>(size_) * sizeof(C) + 63) / 64 * 64;
  }

  void UpdateRows(const opwright::RunContext& ctx, const Factors& factors,
                  const TouchedRows& touched, int32_t first, C* scratch) const {
    T* tables[kTables];
    for (uint32_t t = 0; t < kTables; ++t) tables[t] = static_cast<T*>(ctx.output(t).raw());
    int32_t ahead = first;
    const auto fetch_one = [&] {
      if (ahead == TouchedRows::kNone) return;
      for (T* table : tables) FetchRow(table + touched.row(ahead) * size_);
      ahead = touched.next_row(ahead);
    };
    for (int64_t i = 0; i < kAhead; ++i) fetch_one();
    for (int32_t entry = first; entry != TouchedRows::kNone; entry = touched.next_row(entry)) {
      fetch_one();
      const C* grad = SumOfRow(ctx, touched, entry, scratch);
      T* rows[kTables];
      for (uint32_t t = 0; t < kTables; ++t) rows[t] = tables[t] + touched.row(entry) * size_;
      UpdateRow(factors, rows, grad, scratch + 2 * size_);
    }
  }

  // Prefetches a row, since row numbers are irregular and the TLB does not cover a large table. The
  // target is the L2 cache, which allows more outstanding lines than the L1 cache.
  void FetchRow(const T* row) const {
    const auto* bytes = reinterpret_cast<const char*>(row);
    const int64_t end = std::min<int64_t>(size_ * static_cast<int64_t>(sizeof(T)), 512);
    for (int64_t i = 0; i < end; i += 64) __builtin_prefetch(bytes + i, 0, 2);
  }

  // Returns the sum of the values of all lookups of a row, in lookup order.
  const C* SumOfRow(const opwright::RunContext& ctx, const TouchedRows& touched, int32_t entry,
                    C* scratch) const {
    int32_t next = touched.next_of_row(entry);
    if constexpr (kIsHalf) {
      half_rows_.widen(ValuesOf(ctx, touched.lookup(entry)), scratch, size_);
      for (; next != TouchedRows::kNone; next = touched.next_of_row(next)) {
        half_rows_.widen(ValuesOf(ctx, touched.lookup(next)), scratch + size_, size_);
        AddRow(scratch + size_, scratch, size_);
      }
      return scratch;
    } else {
      const T* values = ValuesOf(ctx, touched.lookup(entry));
      if (next == TouchedRows::kNone) return values;
      std::copy_n(values, size_, scratch);
      for (; next != TouchedRows::kNone; next = touched.next_of_row(next)) {
        AddRow(ValuesOf(ctx, touched.lookup(next)), scratch, size_);
      }
      return scratch;
    }
  }

  const T* ValuesOf(const opwright::RunContext& ctx, int32_t lookup) const {
    const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), lookup);
    const auto i = static_cast<uint32_t>(behind - firsts_.begin() - 1);
    return static_cast<const T*>(ctx.input(2, i).raw()) + (lookup - firsts_[i]) * size_;
  }

  void UpdateRow(const Factors& factors, T* const* rows, const C* grad, C* wide) const {
    Elements<C> elements{};
    C* computed[kTables];
    for (uint32_t t = 0; t < kTables; ++t) {
      if constexpr (kIsHalf) {
        computed[t] = wide + t * size_;
        half_rows_.widen(rows[t], computed[t], size_);
      } else {
        computed[t] = rows[t];
      }
    }
    elements.param = computed[0];
    for (uint32_t t = 1; t < kTables; ++t) elements.states[t - 1] = computed[t];
    elements.grad = grad;
    elements.n = size_;
    Rule::Update(factors, elements);
    if constexpr (kIsHalf) {
      for (uint32_t t = 0; t < kTables; ++t) half_rows_.narrow(computed[t], rows[t], size_);
    }
  }

  int64_t count_ = 0;            // rows of the table
  int64_t size_ = 0;             // elements per row
  std::vector<int64_t> firsts_;  // first lookup of each index tensor, then the number of lookups
  int32_t threads_ = 1;
  HalfRows half_rows_;
};

#define OPWRIGHT_CPU_REGISTER_SPARSE_UPDATE(type, Kernel) \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", Kernel, float, double, OPWRIGHT_CPU_HALVES)

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_SPARSE_UPDATE_H_
