// Computes softmax, the cross entropy with class ids, and the gradient of the scores in one sweep
// over each row.
#include <opwright/functors.h>
#include <cmath>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "losses/attributes.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

// Writes the maximum, and e**(x - maximum) for each score; returns the sum of these powers.
template <typename T>
OPWRIGHT_CPU_CLONES T ExponentiateRow(const T* logits, int64_t n, T* maximum, T* out) {
  T largest = logits[0];
  for (int64_t j = 1; j < n; ++j) largest = opwright::functors::Maximum(largest, logits[j]);
  for (int64_t j = 0; j < n; ++j) out[j] = opwright::functors::Exp(logits[j] - largest);
  T total = T(0);
  for (int64_t j = 0; j < n; ++j) total += out[j];
  *maximum = largest;
  return total;
}

template <typename T>
OPWRIGHT_CPU_CLONES void DivideRow(T total, T factor, int64_t n, T* softmax, T* grad) {
  const T scale = T(1) / total;
  if (softmax != nullptr) {
    for (int64_t j = 0; j < n; ++j) softmax[j] = grad[j] * scale;
  }
  const T both = scale * factor;
  for (int64_t j = 0; j < n; ++j) grad[j] *= both;
}

template <typename T>
struct SoftmaxCrossEntropyKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"logits_grad", "logits"}};
  }

  Status Prepare(opwright::PrepareContext& ctx, const SoftmaxCrossEntropyAttrs&) {
    const opwright::Meta logits = ctx.input(0);
    classes_ = logits.dim(-1);
    rows_ = ctx.input(1).numel();
    wide_ = opwright::SameDtype(ctx.input(1).dtype(), opwright::DtypeOf<int64_t>());
    ctx.SetEstimate(static_cast<uint64_t>(100 + logits.numel()));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const SoftmaxCrossEntropyAttrs& attrs) const {
    return wide_ ? RunTyped<int64_t>(ctx, attrs) : RunTyped<int32_t>(ctx, attrs);
  }

 private:
  template <typename Index>
  Status RunTyped(const opwright::RunContext& ctx, const SoftmaxCrossEntropyAttrs& attrs) const {
    const T* logits = ctx.input(0).data<T>();
    const Index* label = ctx.input(1).data<Index>();
    T* softmax = ctx.has_output(0) ? ctx.output(0).data<T>() : nullptr;
    T* loss = ctx.has_output(1) ? ctx.output(1).data<T>() : nullptr;
    T* grad = ctx.output(2).data<T>();
    for (int64_t i = 0; i < rows_; ++i) {
      const auto id = static_cast<int64_t>(label[i]);
      if (id != attrs.ignore_index && (id < 0 || id >= classes_)) {
        return Status::Error(attrs.source, ": label must be in [0, ", classes_, "), got ", id);
      }
    }
    if (classes_ == 0) {  // every label is ignore_index
      if (loss != nullptr) std::fill_n(loss, rows_, T(0));
      return Status::Ok();
    }
    const int64_t grain = kElementGrain / 8 / classes_ + 1;
    ParallelFor(ctx.n_threads(), rows_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * classes_;
        Row(logits + at, static_cast<int64_t>(label[i]), attrs,
            softmax == nullptr ? nullptr : softmax + at, loss == nullptr ? nullptr : loss + i,
            grad + at);
      }
    });
    return Status::Ok();
  }

  void Row(const T* logits, int64_t id, const SoftmaxCrossEntropyAttrs& attrs, T* softmax, T* loss,
           T* grad) const {
    const bool counts = id != attrs.ignore_index;
    const T of_class = counts ? logits[id] : T(0);  // read first: grad may overwrite the logits
    T maximum = T(0);
    const T total = ExponentiateRow(logits, classes_, &maximum, grad);
    const bool underflows =
        counts && attrs.epsilon > 0 && grad[id] / total < static_cast<T>(attrs.epsilon);
    const T factor = counts && !underflows ? static_cast<T>(attrs.loss_grad) : T(0);
    DivideRow(total, factor, classes_, softmax, grad);
    if (factor == T(0)) {
      for (int64_t j = 0; j < classes_; ++j) grad[j] = T(0);  // 0 times NaN would be NaN
    } else {
      grad[id] -= factor;
    }
    if (loss == nullptr) return;
    if (!counts) {
      *loss = T(0);
    } else if (underflows) {
      *loss = -std::log(static_cast<T>(attrs.epsilon));
    } else {
      *loss = std::log(total) - (of_class - maximum);
    }
  }

  int64_t rows_ = 0;
  int64_t classes_ = 0;
  bool wide_ = true;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("std.softmax_cross_entropy", opwright_cpu::SoftmaxCrossEntropyKernel);
