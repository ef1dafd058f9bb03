// Computes norms based on sums of absolute values or of squares in one pass; the function body of
// norm would store the absolute values or squares.
#include <opwright/functors.h>

#include <algorithm>

#include "common/clones.h"
#include "common/widened.h"
#include "reduction/reducer_kernel.h"

namespace opwright_cpu {
namespace {

struct NormAttrs {
  std::vector<int64_t> axis;  // empty means all axes
  double p;
  OPWRIGHT_ATTRIBUTES(axis, p);
};

// Wraps input elements so that rules can distinguish them from sums by their type.
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

// Replaces sums by their square roots; returns whether all square roots have full precision.
template <typename T>
OPWRIGHT_CPU_CLONES bool TakeRoots(T* x, int64_t n) {
  int64_t n_extreme = 0;
  for (int64_t i = 0; i < n; ++i) {
    n_extreme += opwright::functors::IsOrdinary(x[i]) ? 0 : 1;
    x[i] = opwright::functors::Sqrt(x[i]);
  }
  return n_extreme == 0;
}

// Locates the elements that a result sums, to recompute it if squares overflow or underflow.
class Elements {
 public:
  Elements() = default;
  Elements(const std::vector<int64_t>& dims, const std::vector<bool>& reduced) {
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) {
      (reduced[i] ? reduced_ : kept_).push_back({dims[i], stride});
      if (reduced[i]) count_ *= dims[i];
    }
    if (reduced_.empty()) reduced_.push_back({1, 1});
  }

  template <typename T>
  T NormOf(const T* x, int64_t result) const {
    const T* first = x + OffsetOf(kept_, result);
    const Loop& inner = reduced_[0];
    opwright::functors::SquareSum<T> sum{};
    for (int64_t done = 0; done < count_; done += inner.size) {
      const T* line = first + OffsetOf(reduced_, done);
      for (int64_t i = 0; i < inner.size; ++i) sum.Add(line[i * inner.stride]);
    }
    return sum.Root();
  }

 private:
  struct Loop {
    int64_t size;
    int64_t stride;
  };

  static int64_t OffsetOf(const std::vector<Loop>& loops, int64_t number) {
    int64_t offset = 0;
    for (const Loop& loop : loops) {
      offset += number % loop.size * loop.stride;
      number /= loop.size;
    }
    return offset;
  }

  std::vector<Loop> kept_;  // innermost first
  std::vector<Loop> reduced_;
  int64_t count_ = 1;
};

template <typename T>
struct NormKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NormAttrs& attrs) {
    if (attrs.p != 1 && attrs.p != 2) {
      return opwright::Status::Refused("supports only p=1 and p=2, got p=", attrs.p);
    }
    const opwright::Shape shape = ctx.input(0).shape();
    n_ = ctx.output(0).numel();
    empty_ = shape.numel() == 0;
    if (empty_) return opwright::Status::Ok();
    const std::vector<bool> reduced = ReducedAxes(attrs.axis, shape.rank());
    squares_ = attrs.p == 2;
    of_sizes_ = Reducer<T, SumOfSizes<T, false>, Element<T>>(shape.dims(), reduced);
    of_squares_ = Reducer<T, SumOfSizes<T, true>, Element<T>>(shape.dims(), reduced);
    elements_ = Elements(shape.dims(), reduced);
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
    if (!TakeRoots(out, n_)) FindExtremeNorms(ctx.input(0).data<T>(), out);
    return opwright::Status::Ok();
  }

  // A norm is already correct if its square is an ordinary number.
  void FindExtremeNorms(const T* x, T* out) const {
    for (int64_t i = 0; i < n_; ++i) {
      if (!opwright::functors::IsOrdinary(out[i] * out[i])) out[i] = elements_.NormOf(x, i);
    }
  }

  Reducer<T, SumOfSizes<T, false>, Element<T>> of_sizes_;
  Reducer<T, SumOfSizes<T, true>, Element<T>> of_squares_;
  Elements elements_;
  int64_t n_ = 0;
  bool empty_ = false;
  bool squares_ = true;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("norm", opwright_cpu::NormKernel);
