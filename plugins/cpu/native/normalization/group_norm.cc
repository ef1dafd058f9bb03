// group_norm and instance_norm.
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "normalization/attributes.h"
#include "normalization/group_norm.h"
#include "normalization/normalized_rows.h"

namespace opwright_cpu {
namespace {

// scale and bias may be NULL.
template <typename T>
OPWRIGHT_CPU_CLONES void NormalizeGroups(const Groups& groups, int64_t begin, int64_t end,
                                         const T* x, const T* scale, const T* bias, T epsilon,
                                         T* out, T* means, T* inv_stds) {
  const int64_t n = groups.length();
  for (int64_t row = begin; row < end; ++row) {
    const T* from = x + row * n;
    T* to = out + row * n;
    const int64_t channel = groups.FirstChannel(row);
    const RowStatistics<T> found = StatisticsOf<true>(from, n, epsilon);
    const T mean = found.mean;
    const T inv_std =
        found.is_ordinary ? found.inv_std : InverseOfExtremeRow(from, n, mean, epsilon);
    if (scale == nullptr && bias == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - mean) * inv_std;
    } else if (bias == nullptr) {
      ForRuns(groups, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
        to[i] = (from[i] - mean) * inv_std * scale[channel + c];
      });
    } else if (scale == nullptr) {
      ForRuns(groups, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
        to[i] = (from[i] - mean) * inv_std + bias[channel + c];
      });
    } else {
      ForRuns(groups, [=](int64_t i, int64_t c) OPWRIGHT_CPU_TERM {
        to[i] = (from[i] - mean) * inv_std * scale[channel + c] + bias[channel + c];
      });
    }
    means[row] = mean;
    inv_stds[row] = inv_std;
  }
}

// Slots: x, scale, bias; out, mean, inv_std.
template <typename T>
struct GroupNormKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const GroupNormAttrs&) {
    groups_ = GroupsOf(ctx.input(0).shape(), ctx.output(1).shape());
    constexpr auto kItemBytes = static_cast<int64_t>(sizeof(T));
    ctx.SetEstimate(StreamNs(3 * groups_.numel() * kItemBytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const GroupNormAttrs& attrs) const {
    T* mean = ctx.output(1).data<T>();
    T* inv_std = ctx.output(2).data<T>();
    if (groups_.numel() == 0) {
      std::fill(mean, mean + groups_.rows, T(0));
      std::fill(inv_std, inv_std + groups_.rows, T(0));
      return opwright::Status::Ok();
    }
    const T* x = ctx.input(0).data<T>();
    const T* scale = ctx.has_input(1) ? ctx.input(1).data<T>() : nullptr;
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    const T epsilon = static_cast<T>(attrs.epsilon);
    ParallelFor(ctx.n_threads(), groups_.rows, groups_.Grain(), 1, [=](int64_t begin, int64_t end) {
      NormalizeGroups(groups_, begin, end, x, scale, bias, epsilon, out, mean, inv_std);
    });
    return opwright::Status::Ok();
  }

  Groups groups_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("group_norm", opwright_cpu::GroupNormKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("instance_norm", opwright_cpu::GroupNormKernel);
