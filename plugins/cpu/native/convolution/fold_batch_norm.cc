// Computes the factor and the shift by which batch normalization in inference changes each channel.
#include <opwright/functors.h>

#include "common/clones.h"
#include "common/half.h"
#include "convolution/attributes.h"

namespace opwright_cpu {
namespace {

OPWRIGHT_CPU_INLINE float Wide(float value) { return value; }
OPWRIGHT_CPU_INLINE float Wide(opwright::BFloat16 value) { return FloatOfBFloat16(value.bits); }

// Both results are float even for bfloat16, because the convolution applies them to its float sums.
template <typename T>
OPWRIGHT_CPU_CLONES void Fold(int64_t n, const T* scale, const T* bias, const T* mean,
                              const T* variance, float epsilon, float* factor, float* shift) {
  for (int64_t c = 0; c < n; ++c) {
    const float by = Wide(scale[c]) / opwright::functors::Sqrt(Wide(variance[c]) + epsilon);
    factor[c] = by;
    shift[c] = Wide(bias[c]) - Wide(mean[c]) * by;
  }
}

// Slots of the plan-only operator that the pass fuse_conv creates: scale, bias, mean, variance ->
// factor, shift, and mean and variance, which are read in place and do not change.
template <typename T>
struct FoldBatchNormKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const FoldBatchNormAttrs&) {
    n_ = ctx.input(0).numel();
    ctx.SetEstimate(50 + static_cast<uint64_t>(n_) / 2);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const FoldBatchNormAttrs& attrs) const {
    Fold<T>(n_, ctx.input(0).data<T>(), ctx.input(1).data<T>(), ctx.input(2).data<T>(),
            ctx.input(3).data<T>(), static_cast<float>(attrs.epsilon), ctx.output(0).data<float>(),
            ctx.output(1).data<float>());
    return opwright::Status::Ok();
  }

 private:
  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cpu.fold_batch_norm", "cpu", opwright_cpu::FoldBatchNormKernel, float,
                             opwright::BFloat16);
