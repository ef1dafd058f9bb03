#include "common/clones.h"
#include "common/parallel.h"
#include "elementwise/ops.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddRange(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

template <typename T>
struct AddKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}, {"out", "y"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    if (ctx.input(0).numel() != ctx.output(0).numel() ||
        ctx.input(1).numel() != ctx.output(0).numel()) {
      return opwright::Status::Refused("broadcasts");
    }
    n_ = ctx.output(0).numel();
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* y = ctx.input(1).data<T>();
    T* out = ctx.output(0).data<T>();
    ParallelFor(ctx.n_threads(), n_, kElementGrain, 64, [=](int64_t begin, int64_t end) {
      AddRange(x + begin, y + begin, out + begin, end - begin);
    });
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL(add, "cpu", opwright_cpu::AddKernel, float, double);
