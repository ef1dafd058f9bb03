// The norms that are sums of sizes or of squares, in one pass: the body of norm would write these.
#include <opwright/functors.h>

#include <algorithm>

#include "common/clones.h"
#include "common/widened.h"
#include "reduction/attributes.h"
#include "reduction/reducer_kernel.h"

namespace opwright_cpu {
namespace {

struct NormAttrs {
  std::vector<int64_t> axis;  // none: all
  double p;
  OPWRIGHT_ATTRIBUTES(axis, p);
};

// An element of the input, which a rule tells from a sum of such.
template <typename T>
struct Element {
  T value;
};

template <typename T, bool kSquare>
struct SumOfSizes {
  static OPWRIGHT_CPU_INLINE T Of(T sum) { return sum; }
  static OPWRIGHT_CPU_INLINE T Of(Element<T> x) {
    if constexpr (kSquare) return x.value * x.value;
    return x.value < T(0) ? -x.value : x.value + T(0);
  }
  static OPWRIGHT_CPU_INLINE T Combine(T a, T b) { return a + b; }
  template <typename In>
  static OPWRIGHT_CPU_INLINE T Row(const In* x, int64_t n) {
    return SumOver<T>(n, [x](int64_t i) OPWRIGHT_CPU_TERM { return Of(x[i]); });
  }
};

template <typename T>
OPWRIGHT_CPU_CLONES void TakeRoots(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = opwright::functors::Sqrt(x[i]);
}

template <typename T>
struct NormKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NormAttrs& attrs) {
    if (attrs.p != 1 && attrs.p != 2) {
      return opwright::Status::Refused("a norm that is neither a sum of sizes nor of squares");
    }
    const opwright::Shape shape = ctx.input(0).shape();
    n_ = ctx.output(0).numel();
    empty_ = shape.numel() == 0;
    if (empty_) return opwright::Status::Ok();
    const std::vector<bool> reduced = ReducedAxes(attrs.axis, shape.rank());
    squares_ = attrs.p == 2;
    of_sizes_ = Reducer<T, SumOfSizes<T, false>, Element<T>>(shape.dims(), reduced);
    of_squares_ = Reducer<T, SumOfSizes<T, true>, Element<T>>(shape.dims(), reduced);
    ctx.SetWorkspace(of_squares_.workspace_bytes());
    const auto item = static_cast<int64_t>(sizeof(T));
    ctx.SetEstimate(StreamNs(item * (shape.numel() + n_), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NormAttrs&) const {
    T* out = ctx.output(0).data<T>();
    if (empty_) {
      std::fill(out, out + n_, T(0));
      return opwright::Status::Ok();
    }
    const auto* x = static_cast<const Element<T>*>(ctx.input(0).raw());
    if (!squares_) {
      of_sizes_.Run(x, out, ctx.workspace(), ctx.n_threads());
      return opwright::Status::Ok();
    }
    of_squares_.Run(x, out, ctx.workspace(), ctx.n_threads());
    TakeRoots(out, n_);
    return opwright::Status::Ok();
  }

  Reducer<T, SumOfSizes<T, false>, Element<T>> of_sizes_;
  Reducer<T, SumOfSizes<T, true>, Element<T>> of_squares_;
  int64_t n_ = 0;
  bool empty_ = false;
  bool squares_ = true;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("norm", "cpu", opwright_cpu::NormKernel, float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("norm", opwright_cpu::NormKernel);
