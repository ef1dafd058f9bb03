// top_k along one axis, and its gradient.
#include <algorithm>

#include "along_axis/attributes.h"
#include "along_axis/ranking.h"
#include "common/attributes.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct Ranked {
  T value;
  int64_t position;
};

// Finds the best k elements of a line. A heap holds the k best elements so far, with the worst of
// them on top. Each further element is compared with the top, and most are rejected.
template <typename T>
class Selection {
 public:
  Selection(Ranked<T>* heap, int64_t k, bool largest) : heap_(heap), k_(k), largest_(largest) {}

  void Find(const T* x, int64_t n, int64_t stride) const {
    const auto before = [this](const Ranked<T>& a, const Ranked<T>& b) { return Before(a, b); };
    for (int64_t i = 0; i < k_; ++i) heap_[i] = Ranked<T>{x[i * stride], i};
    std::make_heap(heap_, heap_ + k_, before);
    for (int64_t i = k_; i < n; ++i) {
      // If this element equals an element of the heap, it ranks lower, since its position is later.
      if (!IsAhead(x[i * stride], heap_[0].value, largest_)) continue;
      std::pop_heap(heap_, heap_ + k_, before);
      heap_[k_ - 1] = Ranked<T>{x[i * stride], i};
      std::push_heap(heap_, heap_ + k_, before);
    }
    std::sort_heap(heap_, heap_ + k_, before);
  }

 private:
  bool Before(const Ranked<T>& a, const Ranked<T>& b) const {
    if (IsAhead(a.value, b.value, largest_)) return true;
    return !IsAhead(b.value, a.value, largest_) && a.position < b.position;
  }

  Ranked<T>* heap_;
  int64_t k_;
  bool largest_;
};

// Slots: x; out, indices.
template <typename T>
struct TopKKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const TopKAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    n_workers_ = static_cast<int32_t>(
        std::min<int64_t>(ctx.n_threads(), std::max<int64_t>(lines_.numel() / 8192, 1)));
    heap_bytes_ = (static_cast<uint64_t>(attrs.k) * sizeof(Ranked<T>) + 63) / 64 * 64;
    ctx.SetWorkspace(heap_bytes_ * static_cast<uint64_t>(n_workers_));
    ctx.SetEstimate(StreamNs(16 * lines_.numel(), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const TopKAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    int64_t* indices = ctx.output(1).data<int64_t>();
    const int64_t k = attrs.k, n = lines_.length, inner = lines_.inner;
    Parallel(n_workers_, [&](int32_t thread, int32_t n_threads) {
      auto* heap = static_cast<Ranked<T>*>(
          static_cast<void*>(ctx.workspace<char>() + heap_bytes_ * static_cast<uint64_t>(thread)));
      const Selection<T> selection(heap, k, attrs.largest);
      const Part part = PartOf(lines_.count(), 1, thread, n_threads);
      for (int64_t line = part.begin; line < part.end; ++line) {
        const int64_t outer = line / inner, column = line % inner;
        selection.Find(x + outer * n * inner + column, n, inner);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t at = (outer * k + i) * inner + column;
          out[at] = heap[i].value;
          indices[at] = heap[i].position;
        }
      }
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
  int32_t n_workers_ = 1;
  uint64_t heap_bytes_ = 0;
};

// Slots: x (its shape only), indices, out_grad; x_grad.
template <typename T>
struct TopKGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    k_ = ctx.input(1).numel() / std::max<int64_t>(lines_.count(), 1);
    ctx.SetEstimate(StreamNs(lines_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (!ctx.has_output(0) || lines_.numel() == 0) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const int64_t* indices = ctx.input(1).data<int64_t>();
    const T* grad = ctx.input(2).data<T>();
    const int64_t k = k_, inner = lines_.inner, size = lines_.length * inner;
    // Indices may be out of range, since a program can pass indices that top_k did not compute.
    const int64_t* last = indices + lines_.count() * k;
    const int64_t* wrong =
        std::find_if(indices, last, [this](int64_t i) { return i < 0 || i >= lines_.length; });
    if (wrong != last) {
      return opwright::Status::Error("indices must be in [0, ", lines_.length, "), got ", *wrong);
    }
    ParallelFor(ctx.n_threads(), lines_.outer, std::max<int64_t>(1, kElementGrain / size), 1,
                [=](int64_t begin, int64_t end) {
                  std::fill(x_grad + begin * size, x_grad + end * size, T(0));
                  for (int64_t outer = begin; outer < end; ++outer) {
                    for (int64_t i = outer * k * inner; i < (outer + 1) * k * inner; ++i) {
                      x_grad[outer * size + indices[i] * inner + i % inner] = grad[i];
                    }
                  }
                });
    return opwright::Status::Ok();
  }

  Lines lines_;
  int64_t k_ = 0;  // selected elements per line
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("top_k", "cpu", opwright_cpu::TopKKernel, OPWRIGHT_CPU_NUMBERS);
OPWRIGHT_CPU_REGISTER_WIDENED("top_k", opwright_cpu::TopKKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("top_k_grad", opwright_cpu::TopKGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("sort_grad", opwright_cpu::TopKGradKernel);
