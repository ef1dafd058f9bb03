#include <cstring>

#include "movement/attributes.h"
#include "movement/positions.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct OneHotKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const OneHotAttrs& attrs) {
    n_ = ctx.input(0).numel();
    ctx.SetEstimate(MoveNanoseconds(n_ * attrs.depth * 4, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const OneHotAttrs& attrs) const {
    const Positions ids(ctx.input(0), n_);
    OPWRIGHT_RETURN_IF_ERROR(ids.Check("x", 0, attrs.depth));
    if (n_ == 0) return opwright::Status::Ok();
    float* out = ctx.output(0).data<float>();
    const int64_t depth = attrs.depth;
    const int64_t grain = kCopyGrainBytes / 4 / depth + 1;
    ParallelFor(ctx.n_threads(), n_, grain, 1, [&](int64_t begin, int64_t end) {
      std::memset(out + begin * depth, 0, static_cast<size_t>((end - begin) * depth) * 4);
      for (int64_t i = begin; i < end; ++i) out[i * depth + ids[i]] = 1.0f;
    });
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("one_hot", "cpu", opwright_cpu::OneHotKernel, int32_t, int64_t);
