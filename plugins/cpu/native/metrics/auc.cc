// auc: the area under the ROC curve, from counts of scores in bins.
#include <opwright/functors.h>
#include <opwright/functors/counting.h>

#include "common/parallel.h"
#include "common/widened.h"
#include "losses/class_ids.h"
#include "metrics/attributes.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Returns the share of all pairs of a positive and a negative row in which the positive row is in
// the higher bin. Pairs in the same bin count half.
double AreaOf(const int64_t* positives, const int64_t* negatives, int64_t n_bins) {
  opwright::functors::RocArea area = {};
  for (int64_t i = 0; i < n_bins; ++i) {
    area.Join(opwright::functors::RocAreaOfBin(positives[i], negatives[i]));
  }
  return area.Share();
}

template <typename T>
opwright::Status CheckProbabilities(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] >= T(0) && x[i] <= T(1)) continue;
    return opwright::Status::Error("x must be probabilities in [0, 1], got ",
                                   static_cast<double>(x[i]));
  }
  return opwright::Status::Ok();
}

// Slots: x, label, positives, negatives; auc, positives_out, negatives_out. Both states are updated
// in place.
template <typename T>
struct AucKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AucAttrs& attrs) {
    const int64_t n = ctx.input(0).shape().numel();
    ctx.SetEstimate(static_cast<uint64_t>(20 + 2 * n + 2 * attrs.num_thresholds));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AucAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    const int64_t n = ctx.input(0).numel();
    const ClassIds labels(ctx.input(1));
    OPWRIGHT_RETURN_IF_ERROR(labels.Check(2));
    OPWRIGHT_RETURN_IF_ERROR(CheckProbabilities(x, n));
    int64_t* states[] = {ctx.output(2).data<int64_t>(), ctx.output(1).data<int64_t>()};
    const T n_bins = static_cast<T>(attrs.num_thresholds);
    for (int64_t i = 0; i < n; ++i) ++states[labels[i]][static_cast<int64_t>(x[i] * n_bins)];
    *ctx.output(0).data<float>() =
        static_cast<float>(AreaOf(states[1], states[0], attrs.num_thresholds + 1));
    return opwright::Status::Ok();
  }
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("auc", opwright_cpu::AucKernel);
