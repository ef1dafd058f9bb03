// accuracy: the share of rows whose label is among the k best classes.
#include <algorithm>
#include <limits>

#include "along_axis/ranking.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/class_ids.h"
#include "metrics/attributes.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Counts the classes that rank before the label. These are the classes with a higher score, and
// earlier classes with an equal score. A label whose score is NaN is never among the k best.
template <typename T>
OPWRIGHT_CPU_CLONES int64_t CountBefore(const T* row, int64_t n, int64_t label) {
  const T score = row[label];
  if (score != score) return std::numeric_limits<int64_t>::max();
  int64_t before = 0;
  for (int64_t i = 0; i < label; ++i) before += !(row[i] < score);  // NaN is never less
  for (int64_t i = label + 1; i < n; ++i) before += !(row[i] <= score);
  return before;
}

// Slots: x, label; accuracy, correct, total.
template <typename T>
struct AccuracyKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AccuracyAttrs&) {
    rows_ = LinesAlong(ctx.input(0).shape(), 1);
    n_workers_ = static_cast<int32_t>(
        std::min<int64_t>(ctx.n_threads(), std::max<int64_t>(rows_.numel() / kElementGrain, 1)));
    ctx.SetWorkspace(static_cast<uint64_t>(n_workers_) * sizeof(int64_t));
    ctx.SetEstimate(StreamNs(rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()) +
                    static_cast<uint64_t>(5 * rows_.outer));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AccuracyAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const ClassIds ids(ctx.input(1));
    const int64_t n = rows_.length;
    OPWRIGHT_RETURN_IF_ERROR(ids.Check(n));
    int64_t* counts = ctx.workspace<int64_t>();
    std::fill(counts, counts + n_workers_, int64_t{0});
    Parallel(n_workers_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(rows_.outer, 1, thread, n_threads);
      int64_t right = 0;
      for (int64_t row = part.begin; row < part.end; ++row) {
        right += CountBefore(x + row * n, n, ids[row]) < attrs.k;
      }
      counts[thread] = right;
    });
    int64_t correct = 0;
    for (int32_t thread = 0; thread < n_workers_; ++thread) correct += counts[thread];
    const int64_t total = rows_.outer;
    *ctx.output(0).data<float>() =
        total > 0 ? static_cast<float>(static_cast<double>(correct) / static_cast<double>(total))
                  : 0.0f;
    *ctx.output(1).data<int64_t>() = correct;
    *ctx.output(2).data<int64_t>() = total;
    return opwright::Status::Ok();
  }

  Lines rows_;
  int32_t n_workers_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("accuracy", opwright_cpu::AccuracyKernel);
