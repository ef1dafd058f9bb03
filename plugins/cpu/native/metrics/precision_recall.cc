// precision_recall: counts correct and wrong rows per class and computes the metrics from the
// counts.
#include <opwright/functors.h>
#include <opwright/functors/counting.h>
#include <algorithm>

#include "along_axis/ranking.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/class_ids.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

enum Count { kRight, kTooMany, kNot, kTooFew, kCounts };  // tp, fp, tn, fn of a class

void AddRatios(const int64_t* counts, double* sums) {
  opwright::functors::AddRatios(counts[kRight], counts[kTooMany], counts[kTooFew], sums);
}

void FindMetrics(const int64_t* counts, int64_t n_classes, float* metrics) {
  double sums[6] = {};
  int64_t all[kCounts] = {};
  for (int64_t c = 0; c < n_classes; ++c, counts += kCounts) {
    AddRatios(counts, sums);
    for (int i = 0; i < kCounts; ++i) all[i] += counts[i];
  }
  AddRatios(all, sums + 3);
  const auto divisor = static_cast<double>(std::max<int64_t>(n_classes, 1));
  for (int i = 0; i < 6; ++i) metrics[i] = static_cast<float>(i < 3 ? sums[i] / divisor : sums[i]);
}

template <typename T>
int64_t BestOf(const T* row, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) best = IsAhead(row[i], row[best], true) ? i : best;
  return best;
}

// Slots: x, label, states; batch, total, states_out, which shares the memory of states.
template <typename T>
struct PrecisionRecallKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    rows_ = LinesAlong(ctx.input(0).shape(), 1);
    // The workspace holds the predicted class of each row, and the counts of the batch.
    ctx.SetWorkspace(static_cast<uint64_t>(rows_.outer + kCounts * rows_.length) * sizeof(int64_t));
    ctx.SetEstimate(static_cast<uint64_t>(20 + rows_.numel() + 10 * rows_.length));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const ClassIds labels(ctx.input(1));
    const int64_t n = rows_.length;
    OPWRIGHT_RETURN_IF_ERROR(labels.Check(n));
    int64_t* guesses = ctx.workspace<int64_t>();
    int64_t* counts = guesses + rows_.outer;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(n, 1));
    ParallelFor(ctx.n_threads(), rows_.outer, grain, 1, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) guesses[row] = BestOf(x + row * n, n);
    });
    CountRows(guesses, labels, counts);
    FindMetrics(counts, n, ctx.output(0).data<float>());
    int64_t* states = ctx.output(2).data<int64_t>();
    for (int64_t i = 0; i < kCounts * n; ++i) states[i] += counts[i];
    FindMetrics(states, n, ctx.output(1).data<float>());
    return opwright::Status::Ok();
  }

  void CountRows(const int64_t* guesses, const ClassIds& labels, int64_t* counts) const {
    std::fill(counts, counts + kCounts * rows_.length, int64_t{0});
    for (int64_t row = 0; row < rows_.outer; ++row) {
      const int64_t guess = guesses[row], wanted = labels[row];
      if (guess == wanted) {
        ++counts[kCounts * wanted + kRight];
      } else {
        ++counts[kCounts * guess + kTooMany];
        ++counts[kCounts * wanted + kTooFew];
      }
    }
    for (int64_t c = 0; c < rows_.length; ++c) {
      int64_t* own = counts + kCounts * c;
      own[kNot] = rows_.outer - own[kRight] - own[kTooMany] - own[kTooFew];
    }
  }

  Lines rows_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("precision_recall", opwright_cpu::PrecisionRecallKernel);
