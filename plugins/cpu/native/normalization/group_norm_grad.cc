// The gradients of group_norm and instance_norm.
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "normalization/attributes.h"
#include "normalization/group_norm.h"
#include "normalization/normalized_rows.h"

namespace opwright_cpu {
namespace {

// The inputs and outputs of the gradient kernel; x_grad and sums may be NULL.
template <typename T>
struct GroupGrads {
  const T* x;
  const T* scale;
  const T* mean;
  const T* inv_std;
  const T* grad;
  T* x_grad;
  T* sums;  // sums of grad and of grad * normal, per item and channel
};

template <typename T>
OPWRIGHT_CPU_CLONES void GradGroups(const Groups& groups, const GroupGrads<T>& at, int64_t begin,
                                    int64_t end) {
  const int64_t n = groups.length(), inner = groups.inner;
  for (int64_t row = begin; row < end; ++row) {
    const RowStatistics<T> found{at.mean[row], at.inv_std[row]};
    const T center = found.mean, spread = found.inv_std;
    const T* x = at.x + row * n;
    const T* grad = at.grad + row * n;
    for (int64_t c = 0; at.sums != nullptr && c < groups.channels; ++c) {
      T* sums = at.sums + 2 * (row * groups.channels + c);
      const int64_t first = c * inner;
      sums[0] = SumOf(grad + first, inner);
      sums[1] = SumOver<T>(inner, [=](int64_t i) OPWRIGHT_CPU_TERM {
        return grad[first + i] * ((x[first + i] - center) * spread);
      });
    }
    if (at.x_grad == nullptr) continue;
    T* x_grad = at.x_grad + row * n;
    if (at.scale != nullptr) {
      const T* scale = at.scale + groups.FirstChannel(row);
      ForRuns(groups,
              [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM { x_grad[i] = grad[i] * scale[c]; });
    }
    XGradRow<true>(x, at.scale != nullptr ? x_grad : grad, n, found, x_grad);
  }
}

// Slots: x, scale, bias (its shape only), mean, inv_std, out_grad; x_grad, scale_grad, bias_grad.
template <typename T>
struct GroupNormGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const GroupNormAttrs&) {
    groups_ = GroupsOf(ctx.input(0).shape(), ctx.input(3).shape());
    channels_ = groups_.groups * groups_.channels;
    items_ = channels_ == 0 ? 0 : groups_.rows / groups_.groups;
    if (ctx.has_output(1) || ctx.has_output(2)) {
      ctx.SetWorkspace(static_cast<uint64_t>(2 * items_ * channels_) * sizeof(T));
    }
    constexpr auto kItemBytes = static_cast<int64_t>(sizeof(T));
    ctx.SetEstimate(StreamNs(5 * groups_.numel() * kItemBytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const GroupNormAttrs&) const {
    const bool with_sums = ctx.has_output(1) || ctx.has_output(2);
    T* sums = with_sums ? ctx.workspace<T>() : nullptr;
    if (groups_.numel() > 0) {
      const GroupGrads<T> at{ctx.input(0).data<T>(),
                             ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr,
                             ctx.input(3).data<T>(),
                             ctx.input(4).data<T>(),
                             ctx.input(5).data<T>(),
                             ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr,
                             sums};
      ParallelFor(ctx.n_threads(), groups_.rows, groups_.Grain(), 1,
                  [&](int64_t begin, int64_t end) { GradGroups(groups_, at, begin, end); });
    }
    for (uint32_t slot = 1; slot < 3; ++slot) {  // the gradients of scale and of bias
      if (!ctx.has_output(slot)) continue;
      T* total = ctx.output(slot).data<T>();
      std::fill(total, total + channels_, T(0));
      for (int64_t item = 0; groups_.numel() > 0 && item < items_; ++item) {
        const T* each = sums + 2 * item * channels_ + (slot == 1 ? 1 : 0);
        for (int64_t c = 0; c < channels_; ++c) total[c] += each[2 * c];
      }
    }
    return opwright::Status::Ok();
  }

  Groups groups_;
  int64_t channels_ = 0;
  int64_t items_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("group_norm_grad", opwright_cpu::GroupNormGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("instance_norm_grad", opwright_cpu::GroupNormGradKernel);
