// diff of floats: differences between neighboring elements along an axis.
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

struct DiffAttrs {
  int64_t n = 1;
  int64_t axis = -1;
  OPWRIGHT_ATTRIBUTES(n, axis);
};

template <typename T>
OPWRIGHT_CPU_CLONES void Subtract(const T* above, const T* below, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = above[i] - below[i];
}

// Slots: x, prepend?, append?; out.
template <typename T>
struct DiffKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const DiffAttrs& attrs) {
    if (attrs.n != 1 || ctx.has_input(1) || ctx.has_input(2)) {
      return opwright::Status::Refused("supports only n=1 without prepend and append, got n=",
                                       attrs.n);
    }
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    const int64_t bytes = 2 * static_cast<int64_t>(sizeof(T)) * lines_.numel();
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const DiffAttrs&) const {
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    const int64_t inner = lines_.inner, n = (lines_.length - 1) * inner;
    if (n <= 0) return opwright::Status::Ok();
    if (lines_.outer == 1) {
      ParallelFor(ctx.n_threads(), n, kElementGrain, 64, [=](int64_t begin, int64_t end) {
        Subtract(x + begin + inner, x + begin, end - begin, out + begin);
      });
      return opwright::Status::Ok();
    }
    ParallelFor(ctx.n_threads(), lines_.outer, kElementGrain / n + 1, 1,
                [=](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const T* line = x + i * (n + inner);
                    Subtract(line + inner, line, n, out + i * n);
                  }
                });
    return opwright::Status::Ok();
  }

 private:
  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("diff", opwright_cpu::DiffKernel);
