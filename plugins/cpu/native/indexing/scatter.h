// The destinations of scatter and scatter_nd, which share the loop over index and updates.
#ifndef OPWRIGHT_CPU_INDEXING_SCATTER_H_
#define OPWRIGHT_CPU_INDEXING_SCATTER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

#include "indexing/axis_walk.h"
#include "indexing/row_numbers.h"
#include "movement/tensors.h"

namespace opwright_cpu {

struct ScatterAttrs {
  std::optional<int64_t> axis;  // set for scatter only
  std::string reduction;
  OPWRIGHT_ATTRIBUTES(axis, reduction);
};

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Reduction ReductionOf(const std::string& name);

// The destinations of a kernel whose first slots are x, index and updates, as in both operators and
// their gradients.
class Scattered {
 public:
  void Prepare(const opwright::PrepareContext& ctx, const ScatterAttrs& attrs);

  // Returns the workspace size for the index; the rest of the workspace belongs to the caller.
  size_t workspace_bytes() const { return rows_ ? rows_->workspace_bytes() : 0; }

  // Calls function(share, positions) in parallel and returns an error if a position is out of
  // range. The function returns the result of `AxisWalk::Visit`.
  template <typename Function>
  opwright::Status Run(const opwright::RunContext& ctx, int64_t item_bytes,
                       const Function& function) const {
    if (rows_) {
      auto* numbers = ctx.workspace<int64_t>();
      OPWRIGHT_RETURN_IF_ERROR(rows_->Find(ctx.input(1), numbers, ctx.n_threads()));
      return RunAt(ctx, Positions(numbers, rows_->n), item_bytes, function);
    }
    return RunAt(ctx, Positions(ctx.input(1), n_index_), item_bytes, function);
  }

  const AxisWalk& walk() const { return walk_; }
  int64_t n_updates() const { return n_updates_; }

 private:
  template <typename Function>
  opwright::Status RunAt(const opwright::RunContext& ctx, const Positions& index,
                         int64_t item_bytes, const Function& function) const {
    if (walk_.is_empty()) return index.Check("index", -count_, count_);
    std::atomic<bool> is_right{true};
    index.Visit([&](const auto* positions) {
      const int64_t bytes = 4 * n_updates_ * item_bytes;
      ParallelParts(ctx.n_threads(), bytes, [&](int32_t thread, int32_t threads) {
        if (!function(walk_.ShareOfX(thread, threads), positions)) is_right = false;
      });
    });
    return is_right ? opwright::Status::Ok() : index.Check("index", -count_, count_);
  }

  AxisWalk walk_;
  std::optional<IndexedRows> rows_;  // set for scatter_nd
  int64_t count_ = 0;
  int64_t n_index_ = 0;
  int64_t n_updates_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_SCATTER_H_
