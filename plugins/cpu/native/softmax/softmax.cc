// softmax and log_softmax along one axis, and their gradients.
#include <opwright/functors.h>

#include "common/attributes.h"
#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "reduction/blocks.h"
#include "softmax/softmax_grad.h"
#include "softmax/softmax_lines.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

template <typename T, bool kLog>
struct SoftmaxForward {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const Lines lines = LinesAlong(ctx.input(0).shape(), attrs.axis);
    empty_ = lines.numel() == 0;
    softmax_ = SoftmaxLines<T, kLog>(lines, ctx.n_threads());
    ctx.SetWorkspace(softmax_.workspace_bytes());
    ctx.SetEstimate(softmax_.EstimateNs(ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (empty_) return opwright::Status::Ok();
    softmax_.Run(ctx.input(0).data<T>(), ctx.output(0).data<T>(), LineSums<T>{nullptr, nullptr},
                 ctx.workspace(), ctx.n_threads());
    return opwright::Status::Ok();
  }

  SoftmaxLines<T, kLog> softmax_;
  bool empty_ = false;
};

// The gradient of softmax is (g - sum(out * g)) * out; the gradient of log_softmax is g - exp(out)
// * sum(g), where g is out_grad.
template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE T Term(T out, T grad) {
  return kLog ? grad : out * grad;
}

template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE T Derivative(T out, T grad, T sum) {
  return kLog ? grad - functors::Exp(out) * sum : (grad - sum) * out;
}

template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void GradRows(const T* out, const T* grad, int64_t n_rows, int64_t n,
                                  T* x_grad) {
  for (int64_t row = 0; row < n_rows; ++row, out += n, grad += n, x_grad += n) {
    const T sum =
        SumOver<T>(n, [=](int64_t i) OPWRIGHT_CPU_TERM { return Term<T, kLog>(out[i], grad[i]); });
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x_grad[i] = Derivative<T, kLog>(out[i], grad[i], sum);
  }
}

template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void GradColumns(const T* out, const T* grad, int64_t n, int64_t stride,
                                     int64_t width, T* x_grad) {
  T sum[kLineStrip];
  for (int64_t c = 0; c < width; ++c) sum[c] = 0;
  for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      sum[c] += Term<T, kLog>(out[i * stride + c], grad[i * stride + c]);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      x_grad[i * stride + c] =
          Derivative<T, kLog>(out[i * stride + c], grad[i * stride + c], sum[c]);
    }
  }
}

// Slots: x (its shape only), out, out_grad.
template <typename T, bool kLog>
struct SoftmaxBackward {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"x_grad", "out"}, {"x_grad", "out_grad"}};
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    lines_ = LinesAlong(ctx.input(1).shape(), attrs.axis);
    const auto bytes = lines_.numel() * static_cast<int64_t>((kLog ? 6 : 3) * sizeof(T));
    ctx.SetEstimate(StreamNs(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    if (!ctx.has_output(0) || lines_.numel() == 0) return opwright::Status::Ok();
    T* x_grad = ctx.output(0).data<T>();
    const T* out = ctx.input(1).data<T>();
    const T* grad = ctx.input(2).data<T>();
    const int64_t n = lines_.length;
    ParallelFor(ctx.n_threads(), lines_.count(), LineGrain(lines_), 1,
                [&](int64_t begin, int64_t end) {
                  if (lines_.inner == 1) {
                    GradRows<T, kLog>(out + begin * n, grad + begin * n, end - begin, n,
                                      x_grad + begin * n);
                    return;
                  }
                  ForStrips(lines_, begin, end, [&](int64_t, int64_t width, int64_t offset) {
                    GradColumns<T, kLog>(out + offset, grad + offset, n, lines_.inner, width,
                                         x_grad + offset);
                  });
                });
    return opwright::Status::Ok();
  }

  Lines lines_;
};

template <typename T>
using SoftmaxKernel = SoftmaxForward<T, false>;
template <typename T>
using LogSoftmaxKernel = SoftmaxForward<T, true>;
template <typename T>
using SoftmaxGradKernel = SoftmaxBackward<T, false>;
template <typename T>
using LogSoftmaxGradKernel = SoftmaxBackward<T, true>;

}  // namespace

template <bool kLog>
void SoftmaxGradRows(const float* out, const float* grad, int64_t n_rows, int64_t n,
                     float* x_grad) {
  GradRows<float, kLog>(out, grad, n_rows, n, x_grad);
}
template void SoftmaxGradRows<false>(const float*, const float*, int64_t, int64_t, float*);
template void SoftmaxGradRows<true>(const float*, const float*, int64_t, int64_t, float*);

}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("softmax", opwright_cpu::SoftmaxKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("log_softmax", opwright_cpu::LogSoftmaxKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("softmax_grad", opwright_cpu::SoftmaxGradKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("log_softmax_grad", opwright_cpu::LogSoftmaxGradKernel);
