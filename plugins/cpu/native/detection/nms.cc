// nms visits the boxes by decreasing score; batched_nms does this for each class.
#include <algorithm>
#include <limits>

#include "common/half_rows.h"
#include "detection/attributes.h"
#include "detection/suppression.h"
#include "indexing/positions.h"

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
      // The remaining scores are not higher. NaN ranks first and is not below any threshold.
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

// Slots: boxes, scores, classes; out. The workspace holds the scores, the memory of the sort, the
// kept boxes, the ranks by class, and whether the box of each rank is kept.
template <typename T>
struct BatchedNmsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const BatchedNmsAttrs&) {
    n_ = ctx.input(1).numel();
    if (n_ > std::numeric_limits<int32_t>::max()) {
      return opwright::Status::Refused("takes at most 2147483647 boxes, got ", n_);
    }
    const auto n = static_cast<uint64_t>(n_);
    boxes_at_ = 2 * n * sizeof(Scored<T>);
    ranks_at_ = (boxes_at_ + KeptBoxes<T>::Bytes(n_) + 7) / 8 * 8;
    kept_at_ = ranks_at_ + n * sizeof(int64_t);
    ctx.SetWorkspace(kept_at_ + n);
    ctx.SetEstimate(static_cast<uint64_t>(100 + 250 * n_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const BatchedNmsAttrs& attrs) const {
    const T* scores = ctx.input(1).template data<T>();
    auto* items = ctx.workspace<Scored<T>>();
    for (int64_t i = 0; i < n_; ++i) items[i] = ScoredAt(scores, i);
    const Scored<T>* best = n_ == 0 ? items : SortKeyed(items, items + n_, n_);
    int64_t n = n_;
    if (attrs.score_threshold > -std::numeric_limits<double>::infinity()) {
      const auto is_low = [&](int64_t rank) {
        return static_cast<double>(NumberOf(scores[best[rank].position])) <= attrs.score_threshold;
      };
      for (n = 0; n < n_ && !is_low(n);) ++n;
    }
    char* kept = ctx.workspace<char>() + kept_at_;
    KeepByClass(ctx, attrs, best, n, kept);
    const int64_t limit = attrs.limit < 0 ? n : attrs.limit;
    const auto count = std::min(limit, static_cast<int64_t>(std::count(kept, kept + n, char{1})));
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape{count}));
    int64_t* out = count > 0 ? ctx.output(0).template data<int64_t>() : nullptr;
    for (int64_t rank = 0, i = 0; i < count; ++rank) {
      if (kept[rank]) out[i++] = static_cast<int64_t>(best[rank].position);
    }
    return opwright::Status::Ok();
  }

 private:
  void KeepByClass(const opwright::RunContext& ctx, const BatchedNmsAttrs& attrs,
                   const Scored<T>* best, int64_t n, char* kept) const {
    const T* boxes = ctx.input(0).template data<T>();
    const Positions classes(ctx.input(2), n_);
    const auto box_of = [=](int64_t rank) { return static_cast<int64_t>(best[rank].position); };
    auto* ranks = reinterpret_cast<int64_t*>(ctx.workspace<char>() + ranks_at_);
    for (int64_t i = 0; i < n; ++i) ranks[i] = i;
    std::fill_n(kept, n, char{0});
    std::sort(ranks, ranks + n, [&](int64_t a, int64_t b) {
      const int64_t first = classes[box_of(a)], second = classes[box_of(b)];
      return first == second ? a < b : first < second;
    });
    for (int64_t begin = 0, end = 0; begin < n; begin = end) {
      const int64_t own = classes[box_of(ranks[begin])];
      KeptBoxes<T> of_class(ctx.workspace<char>() + boxes_at_, n_, attrs.iou_threshold, 1.0, 0.0);
      int64_t left = attrs.class_limit < 0 ? n : attrs.class_limit;
      for (; end < n && classes[box_of(ranks[end])] == own; ++end) {
        if (left == 0 || !of_class.Keep(boxes + 4 * box_of(ranks[end]))) continue;
        kept[ranks[end]] = 1;
        --left;
      }
    }
  }

  int64_t n_ = 0;
  uint64_t boxes_at_ = 0;
  uint64_t ranks_at_ = 0;
  uint64_t kept_at_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("nms", "cpu", opwright_cpu::NmsKernel, float, double,
                             OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("batched_nms", "cpu", opwright_cpu::BatchedNmsKernel, float, double,
                             OPWRIGHT_CPU_HALVES);
