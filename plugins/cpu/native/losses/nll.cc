// nll: the negative log-probability of each line at its class id, and the gradient.
#include <algorithm>

#include "common/parallel.h"
#include "common/widened.h"
#include "losses/attributes.h"
#include "losses/class_ids.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

// Slots: x, label; out.
template <typename T>
struct NllKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NllAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(
        StreamNs(4 * lines_.count() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NllAttrs& attrs) const {
    const ClassIds ids(ctx.input(1));
    OPWRIGHT_RETURN_IF_ERROR(ids.Check(lines_.length, &attrs.ignore_index));
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t ignored = attrs.ignore_index;
    const Lines lines = lines_;
    ParallelFor(ctx.n_threads(), lines.count(), 4096, 16, [=](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t id = ids[line];
        out[line] = id == ignored ? T(0) : -x[PlaceOf(lines, line, id)];
      }
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

// Slots: x, label, out_grad; x_grad.
template <typename T>
struct NllGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NllAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    ctx.SetEstimate(StreamNs(lines_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NllAttrs& attrs) const {
    const ClassIds ids(ctx.input(1));
    OPWRIGHT_RETURN_IF_ERROR(ids.Check(lines_.length, &attrs.ignore_index));
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* grad = ctx.input(2).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t ignored = attrs.ignore_index;
    const Lines lines = lines_;
    const int64_t block = lines.length * lines.inner;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(block, 1));
    ParallelFor(ctx.n_threads(), lines.outer, grain, 1, [=](int64_t begin, int64_t end) {
      std::fill(out + begin * block, out + end * block, T(0));
      for (int64_t line = begin * lines.inner; line < end * lines.inner; ++line) {
        const int64_t id = ids[line];
        if (id != ignored) out[PlaceOf(lines, line, id)] = -grad[line];
      }
    });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("nll", opwright_cpu::NllKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("nll_grad", opwright_cpu::NllGradKernel);
