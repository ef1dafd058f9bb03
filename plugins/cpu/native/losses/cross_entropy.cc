// cross_entropy of probabilities, with class ids or distributions as labels, and its gradient.
#include <opwright/functors.h>
#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/attributes.h"
#include "losses/class_ids.h"
#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Returns max(x, epsilon), or NaN if x is NaN.
template <typename T>
OPWRIGHT_CPU_INLINE T AtLeast(T x, T epsilon) {
  return x < epsilon ? epsilon : x;
}

template <typename T>
OPWRIGHT_CPU_CLONES void SoftRows(const T* x, const T* label, int64_t n_rows, int64_t n, T epsilon,
                                  T* out) {
  for (int64_t row = 0; row < n_rows; ++row, x += n, label += n) {
    const auto term = [=](int64_t i) OPWRIGHT_CPU_TERM {
      return functors::Log(AtLeast(x[i], epsilon)) * label[i];
    };
    out[row] = -SumOver<T>(n, term);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void NegativeLogs(T* values, int64_t n, T epsilon) {
  for (int64_t i = 0; i < n; ++i) values[i] = -functors::Log(AtLeast(values[i], epsilon));
}

// Slots: x, label; out.
template <typename T>
struct CrossEntropyKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CrossEntropyAttrs& attrs) {
    rows_ = LinesAlong(ctx.input(0).shape(), -1);
    const int64_t read = attrs.soft_label ? 4 * rows_.numel() : 4 * rows_.outer;
    ctx.SetEstimate(StreamNs(read * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CrossEntropyAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* out = ctx.output(0).data<T>();
    const T epsilon = static_cast<T>(attrs.epsilon);
    const int64_t n = rows_.length;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(n, 1));
    if (attrs.soft_label) {
      const T* label = ctx.input(1).data<T>();
      ParallelFor(ctx.n_threads(), rows_.outer, grain, 1, [=](int64_t begin, int64_t end) {
        SoftRows(x + begin * n, label + begin * n, end - begin, n, epsilon, out + begin);
      });
      return opwright::Status::Ok();
    }
    const ClassIds ids(ctx.input(1));
    OPWRIGHT_RETURN_IF_ERROR(ids.Check(n));
    ParallelFor(ctx.n_threads(), rows_.outer, 4096, 16, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) out[row] = x[row * n + ids[row]];
      NegativeLogs(out + begin, end - begin, epsilon);
    });
    return opwright::Status::Ok();
  }

  Lines rows_;
};

template <typename T>
OPWRIGHT_CPU_CLONES void SoftXGradient(const T* x, const T* label, const T* grad, int64_t n_rows,
                                       int64_t n, T epsilon, T* x_grad) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const T derivative = -grad[row];
    for (int64_t i = row * n; i < (row + 1) * n; ++i) {
      const T value = label[i] / AtLeast(x[i], epsilon) * derivative;
      x_grad[i] = x[i] < epsilon ? T(0) : value;
    }
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void LabelGradient(const T* x, const T* grad, int64_t n_rows, int64_t n,
                                       T epsilon, T* label_grad) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const T derivative = -grad[row];
    for (int64_t i = row * n; i < (row + 1) * n; ++i) {
      label_grad[i] = functors::Log(AtLeast(x[i], epsilon)) * derivative;
    }
  }
}

// Slots: x, label, out_grad; x_grad, label_grad.
template <typename T>
struct CrossEntropyGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CrossEntropyAttrs&) {
    rows_ = LinesAlong(ctx.input(0).shape(), -1);
    ctx.SetEstimate(StreamNs(3 * rows_.numel() * static_cast<int64_t>(sizeof(T)), ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CrossEntropyAttrs& attrs) const {
    const T* x = ctx.input(0).data<T>();
    T* x_grad = ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr;
    T* label_grad = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    const int64_t n = rows_.length;
    const T* grad = ctx.input(2).data<T>();
    const T epsilon = static_cast<T>(attrs.epsilon);
    const ClassIds ids(ctx.input(1));
    if (!attrs.soft_label) OPWRIGHT_RETURN_IF_ERROR(ids.Check(n));
    const T* label = attrs.soft_label ? ctx.input(1).data<T>() : nullptr;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(n, 1));
    ParallelFor(ctx.n_threads(), rows_.outer, grain, 1, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * n, count = end - begin;
      if (label_grad != nullptr) {
        LabelGradient(x + first, grad + begin, count, n, epsilon, label_grad + first);
      }
      if (x_grad == nullptr) return;
      if (label != nullptr) {
        SoftXGradient(x + first, label + first, grad + begin, count, n, epsilon, x_grad + first);
        return;
      }
      std::fill(x_grad + first, x_grad + end * n, T(0));
      for (int64_t row = begin; row < end; ++row) {
        const T picked = x[row * n + ids[row]];
        const T derivative = -grad[row] / AtLeast(picked, epsilon);
        x_grad[row * n + ids[row]] = picked < epsilon ? T(0) : derivative;
      }
    });
    return opwright::Status::Ok();
  }

  Lines rows_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("cross_entropy", opwright_cpu::CrossEntropyKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("cross_entropy_grad", opwright_cpu::CrossEntropyGradKernel);
