// ctc_loss and its gradient; each row is processed by one thread.
#include "losses/ctc_loss.h"

#include "common/parallel.h"
#include "common/widened.h"
#include "losses/attributes.h"

namespace opwright_cpu {
namespace {

// Code shared by both kernels: the shape, and a block of the workspace for each thread.
class CtcPlan {
 public:
  void Prepare(opwright::PrepareContext& ctx, bool keeps_times) {
    const opwright::Shape x = ctx.input(0).shape(), label = ctx.input(1).shape();
    shape_ = CtcShape{x.dims()[0], x.dims()[1], x.dims()[2], label.dims()[1]};
    n_kept_ = keeps_times ? shape_.time + 1 : 2;
    const int64_t steps = shape_.rows * shape_.time * shape_.states() * (keeps_times ? 2 : 1);
    const int64_t wanted = std::min(shape_.rows, steps / 2048);
    n_workers_ =
        static_cast<int32_t>(std::min<int64_t>(ctx.n_threads(), std::max<int64_t>(wanted, 1)));
    const int64_t elements = n_workers_ * CtcRow::SizeOf(shape_, n_kept_);
    ctx.SetWorkspace(static_cast<uint64_t>(elements) * sizeof(double));
    ctx.SetEstimate(static_cast<uint64_t>(100 + 3 * steps / n_workers_));
  }

  const CtcShape& shape() const { return shape_; }

  // Calls function(row number, row) for each row, after its labels have been read.
  template <typename Function>
  opwright::Status ForEachRow(const opwright::RunContext& ctx, int64_t blank,
                              const Function& function) const {
    const CtcInputs inputs(ctx, shape_);
    OPWRIGHT_RETURN_IF_ERROR(inputs.Check(blank));
    auto* workspace = ctx.workspace<double>();
    Parallel(n_workers_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.rows, 1, thread, n_threads);
      CtcRow row(shape_, n_kept_, workspace + thread * CtcRow::SizeOf(shape_, n_kept_));
      for (int64_t i = part.begin; i < part.end; ++i) {
        row.Read(inputs, i, blank);
        function(i, row);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  CtcShape shape_;
  int64_t n_kept_ = 2;
  int32_t n_workers_ = 1;
};

// Slots: x, label, lengths, label_lengths; out.
template <typename T>
struct CtcLossKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CtcAttrs&) {
    plan_.Prepare(ctx, false);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CtcAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const int64_t size = plan_.shape().time * plan_.shape().classes;
    return plan_.ForEachRow(ctx, attrs.blank, [=](int64_t i, CtcRow& row) {
      const double loss = -row.GoForward(x + i * size);
      out[i] = attrs.zero_infinity && loss == -kNever ? T(0) : static_cast<T>(loss);
    });
  }

  CtcPlan plan_;
};

// Runs the backward pass. Subtracts the share of the likelihood that passes through each class at
// each time step, times out_grad, from the gradient.
template <typename T>
void GoBack(const T* x, const CtcShape& shape, double end, T out_grad, CtcRow& row, T* x_grad) {
  const int64_t n = row.n();
  double* betas = row.betas();
  double* onward = row.onward();
  for (int64_t t = row.length() - 1; t >= 0; --t) {
    if (t == row.length() - 1) {
      std::fill(betas, betas + n, kNever);
      std::fill(betas + std::max<int64_t>(n - 2, 0), betas + n, 0.0);
    } else {
      StepBack(onward, row.skips(), n, betas);
    }
    row.ReadScores(x + t * shape.classes);
    for (int64_t k = 0; k < n; ++k) onward[k] = betas[k] + row.scores()[k];
    onward[n] = onward[n + 1] = kNever;
    FindShares(row.Alphas(t + 1), betas, end, n, row.shares());
    T* grad = x_grad + t * shape.classes;
    for (int64_t k = 0; k < n; ++k) {
      const auto share = static_cast<T>(row.shares()[k]);
      if (share != T(0)) grad[row.classes()[k]] -= share * out_grad;
    }
  }
}

// Slots: x, label, lengths, label_lengths, out_grad; x_grad. The forward pass is recomputed, since
// 16 bits would be too coarse for its results, and storing them would take much memory and save
// little time.
template <typename T>
struct CtcLossGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CtcAttrs&) {
    plan_.Prepare(ctx, true);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CtcAttrs& attrs) const {
    if (!ctx.has_output(0)) return opwright::Status::Ok();
    const T* x = ctx.input(0).data<T>();
    const T* out_grad = ctx.input(4).data<T>();
    T* x_grad = ctx.output(0).data<T>();
    const CtcShape shape = plan_.shape();
    const int64_t size = shape.time * shape.classes;
    return plan_.ForEachRow(ctx, attrs.blank, [=](int64_t i, CtcRow& row) {
      std::fill(x_grad + i * size, x_grad + (i + 1) * size, T(0));
      const double end = row.GoForward(x + i * size);
      if (end == kNever) return;  // the loss is infinite in a neighborhood of x
      GoBack(x + i * size, shape, end, out_grad[i], row, x_grad + i * size);
    });
  }

  CtcPlan plan_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("ctc_loss", opwright_cpu::CtcLossKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("ctc_loss_grad", opwright_cpu::CtcLossGradKernel);
