// softmax_with_cross_entropy and its gradient, along any axis, for class ids or distributions.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/attributes.h"
#include "losses/class_ids.h"
#include "reduction/blocks.h"
#include "softmax/softmax_lines.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <typename T>
OPWRIGHT_CPU_CLONES void TakeLogs(T* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] = functors::Log(values[i]);
}

// Computes -sum(label * (x - m - log_total)), where 0 * -inf counts as 0.
template <typename T>
OPWRIGHT_CPU_CLONES void SoftLosses(const T* x, const T* label, const Lines& lines, int64_t begin,
                                    int64_t end, const T* maxima, const T* log_totals, T* out) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t stride = lines.inner;
    const T* from = x + PlaceOf(lines, line, 0);
    const T* weights = label + PlaceOf(lines, line, 0);
    const T maximum = maxima[line], log_total = log_totals[line];
    const auto term = [=](int64_t i) OPWRIGHT_CPU_TERM {
      const T part = weights[i * stride] * ((from[i * stride] - maximum) - log_total);
      return weights[i * stride] == T(0) ? T(0) : part;
    };
    out[line] = -SumOver<T>(lines.length, term);
  }
}

// Slots: logits, label; out, softmax.
template <typename T>
struct SoftmaxLossKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const SoftmaxLossAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(0).shape(), attrs.axis);
    softmax_ = SoftmaxLines<T, false>(lines_, ctx.n_threads());
    lines_bytes_ = static_cast<uint64_t>(lines_.count()) * sizeof(T);
    ctx.SetWorkspace(softmax_.workspace_bytes() + 2 * lines_bytes_);
    ctx.SetEstimate(softmax_.EstimateNs(ctx.n_threads()) +
                    static_cast<uint64_t>(5 * lines_.count()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const SoftmaxLossAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const ClassIds ids(ctx.input(1));
    if (!attrs.soft_label) {
      OPWRIGHT_RETURN_IF_ERROR(ids.Check(lines_.length, &attrs.ignore_index));
    }
    if (lines_.numel() == 0) {
      std::fill(out, out + lines_.count(), T(0));
      return opwright::Status::Ok();
    }
    T* maxima = ctx.workspace<T>();
    T* totals = maxima + lines_.count();
    softmax_.Run(x, ctx.output(1).data<T>(), LineSums<T>{maxima, totals}, totals + lines_.count(),
                 ctx.n_threads());
    TakeLogs(totals, lines_.count());
    if (attrs.soft_label) {
      const T* label = ctx.input(1).data<T>();
      ParallelFor(ctx.n_threads(), lines_.count(), LineGrain(lines_), 1,
                  [&](int64_t begin, int64_t end) {
                    SoftLosses(x, label, lines_, begin, end, maxima, totals, out);
                  });
      return opwright::Status::Ok();
    }
    for (int64_t line = 0; line < lines_.count(); ++line) {
      const int64_t id = ids[line];
      out[line] = id == attrs.ignore_index
                      ? T(0)
                      : totals[line] - (x[PlaceOf(lines_, line, id)] - maxima[line]);
    }
    return opwright::Status::Ok();
  }

  SoftmaxLines<T, false> softmax_;
  Lines lines_;
  uint64_t lines_bytes_ = 0;
};

// Computes x_grad = softmax * grad of one line, element by element.
template <typename T>
OPWRIGHT_CPU_CLONES void ScaleLines(const T* softmax, const T* grad, const Lines& lines,
                                    int64_t begin, int64_t end, T* x_grad) {
  if (lines.inner == 1) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = line * lines.length;
      const T derivative = grad[line];
      for (int64_t i = first; i < first + lines.length; ++i) x_grad[i] = softmax[i] * derivative;
    }
    return;
  }
  ForStrips(lines, begin, end, [&](int64_t line, int64_t width, int64_t offset) OPWRIGHT_CPU_TERM {
    for (int64_t i = 0; i < lines.length; ++i) {
      const int64_t row = offset + i * lines.inner;
      for (int64_t c = 0; c < width; ++c) x_grad[row + c] = softmax[row + c] * grad[line + c];
    }
  });
}

// Computes x_grad = (softmax * sum(label) - label) * grad, line by line.
template <typename T>
OPWRIGHT_CPU_CLONES void SoftGradients(const T* softmax, const T* label, const T* grad,
                                       const Lines& lines, int64_t begin, int64_t end, T* x_grad) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t offset = PlaceOf(lines, line, 0), stride = lines.inner;
    const T total = SumOver<T>(
        lines.length, [=](int64_t i) OPWRIGHT_CPU_TERM { return label[offset + i * stride]; });
    for (int64_t i = 0; i < lines.length; ++i) {
      const int64_t at = offset + i * stride;
      x_grad[at] = (softmax[at] * total - label[at]) * grad[line];
    }
  }
}

// Slots: logits (its shape only), label, softmax, out_grad.
template <typename T>
struct SoftmaxLossGradKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"logits_grad", "softmax"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const SoftmaxLossAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(2).shape(), attrs.axis);
    const auto bytes = lines_.numel() * static_cast<int64_t>(2 * sizeof(T));
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()) + static_cast<uint64_t>(3 * lines_.count()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const SoftmaxLossAttrs& attrs) const {
    if (!ctx.has_output(0) || lines_.numel() == 0) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const T* softmax = ctx.input(2).data<T>();
    const T* grad = ctx.input(3).data<T>();
    const ClassIds ids(ctx.input(1));
    if (!attrs.soft_label) {
      OPWRIGHT_RETURN_IF_ERROR(ids.Check(lines_.length, &attrs.ignore_index));
    }
    ParallelFor(
        ctx.n_threads(), lines_.count(), LineGrain(lines_), 1, [&](int64_t begin, int64_t end) {
          if (attrs.soft_label) {
            SoftGradients(softmax, ctx.input(1).data<T>(), grad, lines_, begin, end, x_grad);
            return;
          }
          ScaleLines(softmax, grad, lines_, begin, end, x_grad);
          MarkClasses(ids, grad, attrs.ignore_index, begin, end, x_grad);
        });
    return opwright::Status::Ok();
  }

  // Subtracts the gradient at the labeled class. Sets ignored lines to 0, even if softmax is NaN.
  void MarkClasses(const ClassIds& ids, const T* grad, int64_t ignore_index, int64_t begin,
                   int64_t end, T* x_grad) const {
    for (int64_t line = begin; line < end; ++line) {
      if (ids[line] != ignore_index) {
        x_grad[PlaceOf(lines_, line, ids[line])] -= grad[line];
        continue;
      }
      for (int64_t i = 0; i < lines_.length; ++i) x_grad[PlaceOf(lines_, line, i)] = T(0);
    }
  }

  Lines lines_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("softmax_with_cross_entropy", opwright_cpu::SoftmaxLossKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("softmax_with_cross_entropy_grad",
                             opwright_cpu::SoftmaxLossGradKernel);
