// unique_consecutive: keeps the first of each run of equal elements or slices, in order.
#include <optional>

#include "common/element.h"
#include "common/half_rows.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

struct RunsAttrs {
  std::optional<int64_t> axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

// Slots: x; out, inverse?, counts?. The workspace holds the offsets of the runs.
template <typename T>
struct UniqueConsecutiveKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const RunsAttrs& attrs) {
    const opwright::Shape& shape = ctx.input(0).shape();
    slices_ = attrs.axis ? LinesAlong(shape, *attrs.axis) : Lines{1, ctx.input(0).numel(), 1};
    ctx.SetWorkspace(static_cast<uint64_t>(slices_.length) * sizeof(int64_t));
    ctx.SetEstimate(static_cast<uint64_t>(20 + 2 * slices_.numel()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RunsAttrs& attrs) const {
    const T* x = ctx.input(0).template data<T>();
    auto* starts = ctx.workspace<int64_t>();
    int64_t* inverse = ctx.has_output(1) ? ctx.output(1).template data<int64_t>() : nullptr;
    int64_t n_runs = 0;
    for (int64_t i = 0; i < slices_.length; ++i) {
      if (i == 0 || Differ(x, i)) starts[n_runs++] = i;
      if (inverse != nullptr) inverse[i] = n_runs - 1;
    }
    std::vector<int64_t> dims = {n_runs};
    if (attrs.axis) {
      dims = ctx.input(0).shape().dims();
      dims[FromFront(*attrs.axis, ctx.input(0).rank())] = n_runs;
    }
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape(dims)));
    if (ctx.has_output(2)) OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(2, opwright::Shape{n_runs}));
    const Lines kept{slices_.outer, n_runs, slices_.inner};
    if (kept.numel() > 0) {
      T* out = ctx.output(0).template data<T>();
      for (int64_t k = 0; k < slices_.count(); ++k) {
        for (int64_t run = 0; run < n_runs; ++run) {
          out[PlaceOf(kept, k, run)] = x[PlaceOf(slices_, k, starts[run])];
        }
      }
    }
    if (!ctx.has_output(2) || n_runs == 0) return opwright::Status::Ok();
    int64_t* counts = ctx.output(2).template data<int64_t>();
    for (int64_t run = 0; run < n_runs; ++run) {
      counts[run] = (run + 1 < n_runs ? starts[run + 1] : slices_.length) - starts[run];
    }
    return opwright::Status::Ok();
  }

 private:
  // Returns whether slice i differs from slice i - 1; NaN differs from every value.
  bool Differ(const T* x, int64_t i) const {
    for (int64_t k = 0; k < slices_.count(); ++k) {
      const T here = x[PlaceOf(slices_, k, i)], before = x[PlaceOf(slices_, k, i - 1)];
      if (ReadElement(here) != ReadElement(before)) return true;
    }
    return false;
  }

  Lines slices_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("unique_consecutive", "cpu", opwright_cpu::UniqueConsecutiveKernel,
                             OPWRIGHT_CPU_NUMBERS, OPWRIGHT_CPU_HALVES, bool);
