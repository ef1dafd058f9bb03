// nms: goes through the boxes by falling score.
#include <algorithm>
#include <limits>

#include "common/half_rows.h"
#include "movement/attributes.h"
#include "movement/suppression.h"

namespace opwright_cpu {
namespace {

// Slots: boxes, scores; out.
template <typename T>
struct NmsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NmsAttrs&) {
    n_ = ctx.input(1).numel();
    if (n_ > std::numeric_limits<int32_t>::max()) {
      return opwright::Status::Refused("takes at most 2147483647 boxes, got ", n_);
    }
    boxes_at_ = 2 * static_cast<uint64_t>(n_) * sizeof(Scored<T>);
    kept_at_ = (boxes_at_ + KeptBoxes<T>::Bytes(n_) + 7) / 8 * 8;
    ctx.SetWorkspace(kept_at_ + static_cast<uint64_t>(n_) * sizeof(int64_t));
    ctx.SetEstimate(static_cast<uint64_t>(100 + 200 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NmsAttrs& attrs) const {
    const T* boxes = ctx.input(0).template data<T>();
    const T* scores = ctx.input(1).template data<T>();
    auto* items = ctx.workspace<Scored<T>>();
    for (int64_t i = 0; i < n_; ++i) items[i] = ScoredAt(scores, i);
    const Scored<T>* best = n_ == 0 ? items : SortKeyed(items, items + n_, n_);
    KeptBoxes<T> kept(ctx.workspace<char>() + boxes_at_, n_, attrs.iou_threshold, 1.0, 0.0);
    auto* numbers = reinterpret_cast<int64_t*>(ctx.workspace<char>() + kept_at_);
    const bool is_bounded = attrs.score_threshold > -std::numeric_limits<double>::infinity();
    const int64_t limit = attrs.limit < 0 ? n_ : attrs.limit;
    int64_t count = 0;
    for (int64_t i = 0; i < n_ && count < limit; ++i) {
      const auto box = static_cast<int64_t>(best[i].position);
      // The others are worse. NaN, which is the best one, is not below a threshold.
      if (is_bounded && static_cast<double>(NumberOf(scores[box])) <= attrs.score_threshold) break;
      if (kept.Keep(boxes + 4 * box)) numbers[count++] = box;
    }
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape{count}));
    if (count > 0) std::copy_n(numbers, count, ctx.output(0).template data<int64_t>());
    return opwright::Status::Ok();
  }

 private:
  int64_t n_ = 0;
  uint64_t boxes_at_ = 0;
  uint64_t kept_at_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("nms", "cpu", opwright_cpu::NmsKernel, float, double,
                             OPWRIGHT_CPU_HALVES);
