// multiclass_nms: applies nms to each class of each image and keeps the best detections overall.
#include <algorithm>
#include <limits>

#include "common/half_rows.h"
#include "common/parallel.h"
#include "detection/attributes.h"
#include "detection/suppression.h"

namespace opwright_cpu {
namespace {

// A box of one class; `place` is class * m + box, so its score is scores[place].
struct Detection {
  int64_t place;
  bool counts;
};

// Slots: boxes, scores; out, index, batch_index.
template <typename T>
struct MulticlassNmsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const MulticlassNmsAttrs& attrs) {
    const opwright::Shape scores = ctx.input(1).shape();
    images_ = scores.dim(0), classes_ = scores.dim(1), m_ = scores.dim(2);
    if (classes_ * m_ > std::numeric_limits<int32_t>::max()) {
      return opwright::Status::Refused("takes at most 2147483647 scores of an image, got ",
                                       classes_ * m_);
    }
    capacity_ = attrs.nms_top_k < 0 ? m_ : std::min(attrs.nms_top_k, m_);
    const auto padded = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
    const auto most = static_cast<uint64_t>(std::max(m_, classes_ * capacity_));
    boxes_at_ = padded(2 * most * sizeof(Scored<T>));
    thread_bytes_ = boxes_at_ + padded(KeptBoxes<T>::Bytes(capacity_));
    const auto all = static_cast<uint64_t>(images_ * classes_ * capacity_);
    counts_at_ = padded(all * sizeof(Detection));
    threads_at_ = counts_at_ + padded(static_cast<uint64_t>(images_) * sizeof(int64_t));
    n_threads_ = static_cast<int32_t>(std::clamp<int64_t>(
        std::min<int64_t>(images_, images_ * classes_ * m_ / 1024), 1, ctx.n_threads()));
    ctx.SetWorkspace(threads_at_ + static_cast<uint64_t>(n_threads_) * thread_bytes_);
    ctx.SetEstimate(static_cast<uint64_t>(100 + 20 * images_ * classes_ * m_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const MulticlassNmsAttrs& attrs) const {
    char* workspace = ctx.workspace<char>();
    auto* found = reinterpret_cast<Detection*>(workspace);
    auto* counts = reinterpret_cast<int64_t*>(workspace + counts_at_);
    const T* boxes = ctx.input(0).template data<T>();
    const T* scores = ctx.input(1).template data<T>();
    Parallel(n_threads_, [&](int32_t thread, int32_t n_threads) {
      char* memory = workspace + threads_at_ + static_cast<uint64_t>(thread) * thread_bytes_;
      const Part part = PartOf(images_, 1, thread, n_threads);
      for (int64_t i = part.begin; i < part.end; ++i) {
        counts[i] = Detect(attrs, boxes + i * m_ * 4, scores + i * classes_ * m_, memory,
                           found + i * classes_ * capacity_);
      }
    });
    int64_t total = 0;
    for (int64_t i = 0; i < images_; ++i) total += counts[i];
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape{total, 6}));
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(1, opwright::Shape{total}));
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(2, opwright::Shape{total}));
    if (total > 0) Write(ctx, found, counts);
    return opwright::Status::Ok();
  }

 private:
  // Writes the detections of one image by class and decreasing score; returns their number.
  int64_t Detect(const MulticlassNmsAttrs& attrs, const T* boxes, const T* scores, char* memory,
                 Detection* found) const {
    auto* items = reinterpret_cast<Scored<T>*>(memory);
    int64_t count = 0;
    for (int64_t label = 0; label < classes_; ++label) {
      if (label == attrs.background_label) continue;
      const T* line = scores + label * m_;
      int64_t n = 0;
      for (int64_t i = 0; i < m_; ++i) {
        if (static_cast<double>(NumberOf(line[i])) > attrs.score_threshold) {
          items[n++] = ScoredAt(line, i);
        }
      }
      if (n == 0) continue;
      const Scored<T>* best = SortKeyed(items, items + n, n);
      KeptBoxes<T> kept(memory + boxes_at_, capacity_, attrs.iou_threshold, attrs.nms_eta,
                        attrs.normalized ? 0.0 : 1.0);
      const int64_t limit = attrs.class_top_k < 0 ? m_ : attrs.class_top_k, before = count;
      for (int64_t i = 0; i < std::min(n, capacity_) && count - before < limit; ++i) {
        const auto box = static_cast<int64_t>(best[i].position);
        if (kept.Keep(boxes + 4 * box)) found[count++] = Detection{label * m_ + box, true};
      }
    }
    if (attrs.keep_top_k < 0 || count <= attrs.keep_top_k) return count;
    return KeepBest(scores, count, attrs.keep_top_k, items, found);
  }

  // Keeps the `most` best detections without changing their order; returns their number.
  static int64_t KeepBest(const T* scores, int64_t count, int64_t most, Scored<T>* items,
                          Detection* found) {
    for (int64_t i = 0; i < count; ++i) {
      items[i] = ScoredAt(scores, found[i].place);
      items[i].position = static_cast<decltype(items[i].position)>(i);
    }
    const Scored<T>* best = SortKeyed(items, items + count, count);
    for (int64_t i = most; i < count; ++i) found[best[i].position].counts = false;
    const auto end =
        std::remove_if(found, found + count, [](const Detection& d) { return !d.counts; });
    return end - found;
  }

  void Write(const opwright::RunContext& ctx, const Detection* found, const int64_t* counts) const {
    const T* boxes = ctx.input(0).template data<T>();
    const T* scores = ctx.input(1).template data<T>();
    T* row = ctx.output(0).template data<T>();
    int64_t* index = ctx.output(1).template data<int64_t>();
    int64_t* batch_index = ctx.output(2).template data<int64_t>();
    for (int64_t image = 0; image < images_; ++image) {
      const Detection* detections = found + image * classes_ * capacity_;
      for (int64_t i = 0; i < counts[image]; ++i, row += 6) {
        const int64_t place = detections[i].place, box = place % m_;
        row[0] = Rounded<T>(static_cast<double>(place / m_));
        row[1] = scores[image * classes_ * m_ + place];
        std::copy_n(boxes + (image * m_ + box) * 4, 4, row + 2);
        *index++ = box;
        *batch_index++ = image;
      }
    }
  }

  int64_t images_ = 0;
  int64_t classes_ = 0;
  int64_t m_ = 0;
  int64_t capacity_ = 0;  // maximum number of candidate boxes per class
  int32_t n_threads_ = 1;
  uint64_t counts_at_ = 0;  // offset in the workspace, after the detections of all images
  uint64_t threads_at_ = 0;
  uint64_t thread_bytes_ = 0;
  uint64_t boxes_at_ = 0;  // offset in a thread's memory, after the scores
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("multiclass_nms", "cpu", opwright_cpu::MulticlassNmsKernel, float,
                             double, OPWRIGHT_CPU_HALVES);
