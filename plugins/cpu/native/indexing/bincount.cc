// bincount: the number of occurrences of each id, or the sum of its weights.
#include <algorithm>

#include "common/half_rows.h"
#include "indexing/attributes.h"
#include "indexing/counts.h"
#include "indexing/positions.h"
#include "movement/tensors.h"
#include "movement/widths.h"

namespace opwright_cpu {
namespace {

// Sums weights in double, in the order of the elements, and rounds each sum once.
template <typename T>
void AddWeights(const Positions& ids, const T* weights, int64_t n, double* sums, int64_t length,
                T* out) {
  std::fill_n(sums, length, 0.0);
  ids.Visit([&](const auto* id) {
    for (int64_t i = 0; i < n; ++i) sums[id[i]] += static_cast<double>(NumberOf(weights[i]));
  });
  for (int64_t i = 0; i < length; ++i) out[i] = Rounded<T>(sums[i]);
}

// Slots: x, weights, which may be absent; out.
template <typename Index>
struct BincountKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const LengthAttrs& attrs) {
    n_ = ctx.input(0).numel();
    length_ = attrs.length;
    counts_ = Counts(n_, length_, ctx.n_threads());
    const auto sums = static_cast<uint64_t>(length_) * sizeof(double);
    ctx.SetWorkspace(ctx.has_input(1) ? sums : counts_.workspace_bytes());
    ctx.SetEstimate(ctx.has_input(1) ? static_cast<uint64_t>(20 + n_ + length_)
                                     : counts_.estimate_ns());
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const LengthAttrs&) const {
    const Positions ids(ctx.input(0), n_);
    OPWRIGHT_RETURN_IF_ERROR(ids.Check("x", 0, length_));
    if (ctx.has_input(1)) {
      Add(ctx, ids);
      return opwright::Status::Ok();
    }
    const Index* x = ctx.input(0).data<Index>();
    const auto count = [x](int64_t begin, int64_t end, int64_t* counts) {
      for (int64_t i = begin; i < end; ++i) ++counts[x[i]];
    };
    counts_.Run(count, ctx.workspace<int64_t>(), ctx.output(0).data<int64_t>());
    return opwright::Status::Ok();
  }

 private:
  void Add(const opwright::RunContext& ctx, const Positions& ids) const {
    const DLDataType dtype = ctx.input(1).dtype();
    if (dtype.code == kDLBfloat) return AddTyped<opwright::BFloat16>(ctx, ids);
    if (dtype.bits == 16) return AddTyped<opwright::Float16>(ctx, ids);
    if (dtype.bits == 32) return AddTyped<float>(ctx, ids);
    AddTyped<double>(ctx, ids);
  }

  template <typename T>
  void AddTyped(const opwright::RunContext& ctx, const Positions& ids) const {
    AddWeights(ids, ctx.input(1).data<T>(), n_, ctx.workspace<double>(), length_,
               ctx.output(0).data<T>());
  }

  int64_t n_ = 0;
  int64_t length_ = 1;
  Counts counts_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("bincount", "cpu", opwright_cpu::BincountKernel, int32_t, int64_t);
