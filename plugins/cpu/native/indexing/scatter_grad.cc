// The gradients of scatter and scatter_nd, for updates that set, add, multiply or compare.
#include <cstdint>
#include <cstring>

#include "common/widened.h"
#include "indexing/scatter.h"
#include "movement/stream.h"

namespace opwright_cpu {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The inputs are x, index, updates, out and out_grad; the outputs are x_grad? and updates_grad?.
template <typename T>
struct ScatterGradKernel {
  struct Slots {
    const T* x;
    const T* updates;
    const T* out;
    const T* grad;
    T* x_grad;
    T* updates_grad;
    T* before;       // product of the factors before an update
    T* behind;       // product of the factors after an update
    int32_t* count;  // one count per element of out
  };

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    scattered_.Prepare(ctx, attrs);
    reduction_ = ReductionOf(attrs.reduction);
    n_ = ctx.input(0).numel();
    const auto n = static_cast<size_t>(n_);
    const size_t index_bytes = Aligned(scattered_.workspace_bytes());
    const bool is_product = reduction_ == Reduction::kMul;
    own_ = index_bytes;
    second_ = own_ + Aligned(n * sizeof(T));
    ctx.SetWorkspace(is_product ? second_ + n * sizeof(T) : own_ + n * sizeof(int32_t));
    const int64_t items = 2 * n_ + 6 * scattered_.n_updates();
    ctx.SetEstimate(MoveNanoseconds(items * kItem, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ScatterAttrs&) const {
    auto* workspace = ctx.workspace<char>();
    Slots s{ctx.input(0).data<T>(),
            ctx.input(2).data<T>(),
            ctx.input(3).data<T>(),
            ctx.input(4).data<T>(),
            ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr,
            ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr,
            reinterpret_cast<T*>(workspace + own_),
            reinterpret_cast<T*>(workspace + second_),
            reinterpret_cast<int32_t*>(workspace + own_)};
    switch (reduction_) {
      case Reduction::kNone:
        return OfSet(ctx, s);
      case Reduction::kAdd:
        return OfSum(ctx, s);
      case Reduction::kMul:
        return OfProduct(ctx, s);
      default:
        return OfExtremum(ctx, s);
    }
  }

  // Passes the gradient of an element to the last update that sets it.
  opwright::Status OfSet(const opwright::RunContext& ctx, const Slots& s) const {
    if (s.x_grad != nullptr) Copy(ctx, s.grad, s.x_grad);
    ZeroBytes(reinterpret_cast<char*>(s.count), n_ * 4, ctx.n_threads());
    return Walk<true>(ctx, [=](int64_t place, int64_t i) {
      const bool is_last = s.count[place] == 0;
      s.count[place] = 1;
      if (s.updates_grad != nullptr) s.updates_grad[i] = is_last ? s.grad[place] : T{0};
      if (s.x_grad != nullptr) s.x_grad[place] = 0;
    });
  }

  opwright::Status OfSum(const opwright::RunContext& ctx, const Slots& s) const {
    if (s.x_grad != nullptr) Copy(ctx, s.grad, s.x_grad);
    if (s.updates_grad == nullptr) return opwright::Status::Ok();  // x_grad is all of out_grad
    return Walk<false>(ctx, [=](int64_t place, int64_t i) { s.updates_grad[i] = s.grad[place]; });
  }

  // Multiplies all other factors instead of dividing the product, since factors may be zero.
  opwright::Status OfProduct(const opwright::RunContext& ctx, const Slots& s) const {
    Copy(ctx, s.x, s.before);
    ParallelFor(ctx.n_threads(), n_, kElementGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) s.behind[i] = 1;
    });
    if (s.updates_grad != nullptr) {
      OPWRIGHT_RETURN_IF_ERROR(Walk<false>(ctx, [=](int64_t place, int64_t i) {
        s.updates_grad[i] = s.before[place];
        s.before[place] *= s.updates[i];
      }));
    }
    OPWRIGHT_RETURN_IF_ERROR(Walk<true>(ctx, [=](int64_t place, int64_t i) {
      if (s.updates_grad != nullptr) {
        s.updates_grad[i] = s.grad[place] * (s.updates_grad[i] * s.behind[place]);
      }
      s.behind[place] *= s.updates[i];
    }));
    if (s.x_grad == nullptr) return opwright::Status::Ok();
    ParallelFor(ctx.n_threads(), n_, kElementGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) s.x_grad[i] = s.grad[i] * s.behind[i];
    });
    return opwright::Status::Ok();
  }

  static bool Took(T value, T out) { return value == out || (value != value && out != out); }

  // Distributes the gradient equally among all elements equal to the extremum.
  opwright::Status OfExtremum(const opwright::RunContext& ctx, const Slots& s) const {
    ParallelFor(ctx.n_threads(), n_, kElementGrain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) s.count[i] = Took(s.x[i], s.out[i]) ? 1 : 0;
    });
    OPWRIGHT_RETURN_IF_ERROR(Walk<false>(ctx, [=](int64_t place, int64_t i) {
      if (Took(s.updates[i], s.out[place])) ++s.count[place];
    }));
    if (s.x_grad != nullptr) {
      ParallelFor(ctx.n_threads(), n_, kElementGrain, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          s.x_grad[i] = Took(s.x[i], s.out[i]) ? s.grad[i] / static_cast<T>(s.count[i]) : T{0};
        }
      });
    }
    if (s.updates_grad == nullptr) return opwright::Status::Ok();
    return Walk<false>(ctx, [=](int64_t place, int64_t i) {
      const bool took = Took(s.updates[i], s.out[place]);
      s.updates_grad[i] = took ? s.grad[place] / static_cast<T>(s.count[place]) : T{0};
    });
  }

  void Copy(const opwright::RunContext& ctx, const T* from, T* to) const {
    if (n_ == 0) return;
    CopyBytes(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to), n_ * kItem,
              ctx.n_threads());
  }

  template <bool kReverse, typename Function>
  opwright::Status Walk(const opwright::RunContext& ctx, const Function& function) const {
    return scattered_.Run(ctx, kItem, [&](const AxisWalk::Share& share, const auto* index) {
      return scattered_.walk().template Visit<kReverse>(index, share, function);
    });
  }

  static constexpr int64_t kItem = sizeof(T);
  Scattered scattered_;
  Reduction reduction_ = Reduction::kNone;
  int64_t n_ = 0;
  size_t own_ = 0;     // offset of the workspace after the index
  size_t second_ = 0;  // offset of the second half of that workspace
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("scatter_grad", opwright_cpu::ScatterGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("scatter_nd_grad", opwright_cpu::ScatterGradKernel);
