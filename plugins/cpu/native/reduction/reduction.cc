// sum, prod, mean, max, min, any and all over any axes, and the gradients of max and min.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/broadcast.h"
#include "reduction/number_sum.h"
#include "reduction/reducer.h"

namespace opwright_cpu {
namespace {

template <typename T>
void Fill(T* out, int64_t n, T value) {
  std::fill(out, out + n, value);
}

template <typename T>
OPWRIGHT_CPU_CLONES void DivideRange(const T* x, T* out, int64_t n, T divisor) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] / divisor;
}

template <typename T>
void Divide(const T* x, T* out, int64_t n, T divisor, int32_t n_threads) {
  ParallelFor(n_threads, n, kElementGrain, 64, [=](int64_t begin, int64_t end) {
    DivideRange(x + begin, out + begin, end - begin, divisor);
  });
}

// Returns the reduction of an empty set.
template <typename Rule>
struct OfNothing {
  static constexpr int kValue = 0;
};
template <typename T>
struct OfNothing<Prod<T>> {
  static constexpr int kValue = 1;
};
template <>
struct OfNothing<Truth<true>> {
  static constexpr int kValue = 1;
};

// The common base of all reductions; they compute in `Number` and read elements of type `In`.
template <typename Number, typename Rule, bool kMean, typename In = Number>
struct ReductionKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxesAttrs& attrs) {
    const opwright::Shape shape = ctx.input(0).shape();
    n_ = ctx.output(0).numel();
    empty_ = shape.numel() == 0;
    if (empty_) return opwright::Status::Ok();
    reducer_ = Reducer<Number, Rule, In>(shape.dims(), ReducedAxes(attrs.axis, shape.rank()));
    const int64_t count = shape.numel() / n_;
    divisor_ = static_cast<Number>(count);
    ctx.SetWorkspace(reducer_.workspace_bytes());
    const auto bytes = static_cast<int64_t>(sizeof(In)) * shape.numel() +
                       static_cast<int64_t>(sizeof(Number)) * n_;
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxesAttrs&) const {
    auto* out = static_cast<Number*>(ctx.output(0).raw());
    if (empty_) {  // for an extremum, the output is empty as well
      Fill(out, n_,
           kMean ? std::numeric_limits<Number>::quiet_NaN() : Number(OfNothing<Rule>::kValue));
      return opwright::Status::Ok();
    }
    const auto* x = static_cast<const In*>(ctx.input(0).raw());
    reducer_.Run(x, out, ctx.workspace(), ctx.n_threads());
    if constexpr (kMean) Divide<Number>(out, out, n_, divisor_, ctx.n_threads());
    return opwright::Status::Ok();
  }

  Reducer<Number, Rule, In> reducer_;
  int64_t n_ = 0;
  Number divisor_ = 1;
  bool empty_ = false;
};

// bool is computed as a byte that is 0 or 1.
template <typename T>
using Readable = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <typename T>
using Read = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, Readable<T>>;

template <typename T>
using SumKernel = ReductionKernel<Wide<T>, Sum<Wide<T>>, false, Read<T>>;
template <typename T>
using ProdKernel = ReductionKernel<Wide<T>, Prod<Wide<T>>, false, Read<T>>;
template <typename T>
using NansumKernel = ReductionKernel<T, NumberSum<T>, false>;
template <typename T>
using MeanKernel = ReductionKernel<T, Sum<T>, true>;
template <typename T>
using MaxKernel = ReductionKernel<Readable<T>, Extremum<Readable<T>, true>, false>;
template <typename T>
using MinKernel = ReductionKernel<Readable<T>, Extremum<Readable<T>, false>, false>;

// Signed and unsigned integers share kernels, since their zeros have the same bits.
template <typename T, bool kAll>
using TruthKernel = ReductionKernel<uint8_t, Truth<kAll>, false, SumType<Readable<T>>>;
template <typename T>
using AnyKernel = TruthKernel<T, false>;
template <typename T>
using AllKernel = TruthKernel<T, true>;

// x_grad of sum and mean: out_grad is repeated and, for mean, divided by the count. Slots: x,
// out_grad.
template <typename T, bool kMean>
struct SpreadKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxesAttrs& attrs) {
    const opwright::Shape shape = ctx.input(0).shape();
    const int64_t n = shape.numel();
    spread_ = Broadcast(shape.dims(), ReducedAxes(attrs.axis, shape.rank()), sizeof(T));
    n_ = ctx.input(1).numel();
    const int64_t count = n_ > 0 ? n / n_ : 1;
    divisor_ = static_cast<T>(count);
    if (kMean) ctx.SetWorkspace(static_cast<uint64_t>(n_) * sizeof(T));
    ctx.SetEstimate(StreamNs(n * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxesAttrs&) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const T* out_grad = ctx.input(1).data<T>();
    if constexpr (kMean) {
      Divide(out_grad, ctx.workspace<T>(), n_, divisor_, ctx.n_threads());
      out_grad = ctx.workspace<T>();
    }
    spread_.Run(out_grad, x_grad, ctx.n_threads());
    return opwright::Status::Ok();
  }

  Broadcast spread_;
  int64_t n_ = 0;
  T divisor_ = 1;
};

template <typename T>
using SumGradKernel = SpreadKernel<T, false>;
template <typename T>
using MeanGradKernel = SpreadKernel<T, true>;

// Overwrites `best`, which holds the extremum of each element's line, with 1 for elements equal to
// it, and 0 otherwise. If the extremum is NaN, the result is 1 for every NaN of the line.
template <typename T>
OPWRIGHT_CPU_CLONES void MarkExtrema(const T* x, T* best, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    best[i] = (x[i] == best[i]) | ((x[i] != x[i]) & (best[i] != best[i])) ? T(1) : T(0);
  }
}

// Clamps the count to at least 1, since a program may pass values other than the extrema.
template <typename T>
OPWRIGHT_CPU_CLONES void ShareGradient(const T* out_grad, T* counts, int64_t n) {
  for (int64_t i = 0; i < n; ++i) counts[i] = out_grad[i] / (counts[i] < T(1) ? T(1) : counts[i]);
}

// Sets the gradient of elements other than the extremum to 0, even if the shares are infinite.
template <typename T>
OPWRIGHT_CPU_CLONES void KeepMarked(const T* marks, T* shares, int64_t n) {
  for (int64_t i = 0; i < n; ++i) shares[i] = marks[i] == T(0) ? T(0) : shares[i];
}

// x_grad of max and min, in which elements equal to the extremum share its gradient. Slots: x, out,
// out_grad. Because sums are pairwise, a float count is exact up to 2**24 ties per line.
template <typename T>
struct ExtremumGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxesAttrs& attrs) {
    const opwright::Shape shape = ctx.input(0).shape();
    n_ = shape.numel();
    n_out_ = ctx.input(1).numel();
    if (n_ == 0) return opwright::Status::Ok();
    const std::vector<bool> reduced = ReducedAxes(attrs.axis, shape.rank());
    spread_ = Broadcast(shape.dims(), reduced, sizeof(T));
    count_ = Reducer<T, Sum<T>>(shape.dims(), reduced);
    counts_bytes_ = (static_cast<uint64_t>(n_out_) * sizeof(T) + 63) / 64 * 64;
    marks_bytes_ = (static_cast<uint64_t>(n_) * sizeof(T) + 63) / 64 * 64;
    ctx.SetWorkspace(counts_bytes_ + marks_bytes_ + count_.workspace_bytes());
    const auto item = static_cast<int64_t>(sizeof(T));
    ctx.SetEstimate(StreamNs(8 * n_ * item, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxesAttrs&) const {
    if (!ctx.has_output(0) || n_ == 0) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const int32_t n_threads = ctx.n_threads();
    char* workspace = ctx.workspace<char>();
    T* counts = static_cast<T*>(static_cast<void*>(workspace));
    T* marks = static_cast<T*>(static_cast<void*>(workspace + counts_bytes_));
    const T* x = ctx.input(0).data<T>();
    spread_.Run(ctx.input(1).data<T>(), marks, n_threads);
    ParallelFor(n_threads, n_, kElementGrain, 64, [=](int64_t begin, int64_t end) {
      MarkExtrema(x + begin, marks + begin, end - begin);
    });
    count_.Run(marks, counts, workspace + counts_bytes_ + marks_bytes_, n_threads);
    ShareGradient(ctx.input(2).data<T>(), counts, n_out_);
    spread_.Run(counts, x_grad, n_threads);
    ParallelFor(n_threads, n_, kElementGrain, 64, [=](int64_t begin, int64_t end) {
      KeepMarked(marks + begin, x_grad + begin, end - begin);
    });
    return opwright::Status::Ok();
  }

  Broadcast spread_;
  Reducer<T, Sum<T>> count_;
  int64_t n_ = 0;
  int64_t n_out_ = 0;
  uint64_t counts_bytes_ = 0;
  uint64_t marks_bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

#define OPWRIGHT_CPU_REGISTER(type, Kernel) \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", opwright_cpu::Kernel, OPWRIGHT_CPU_NUMBERS, bool)
OPWRIGHT_CPU_REGISTER("sum", SumKernel);
OPWRIGHT_CPU_REGISTER("prod", ProdKernel);
OPWRIGHT_CPU_REGISTER("max", MaxKernel);
OPWRIGHT_CPU_REGISTER("min", MinKernel);
OPWRIGHT_CPU_REGISTER("any", AnyKernel);
OPWRIGHT_CPU_REGISTER("all", AllKernel);
#undef OPWRIGHT_CPU_REGISTER
OPWRIGHT_CPU_REGISTER_WIDENED("prod", opwright_cpu::ProdKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("any", opwright_cpu::AnyKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("all", opwright_cpu::AllKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("nansum", opwright_cpu::NansumKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("mean", "cpu", opwright_cpu::MeanKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("sum_grad", "cpu", opwright_cpu::SumGradKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("mean_grad", "cpu", opwright_cpu::MeanGradKernel, float, double);
OPWRIGHT_CPU_REGISTER_FLOATS("max_grad", opwright_cpu::ExtremumGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("min_grad", opwright_cpu::ExtremumGradKernel);
