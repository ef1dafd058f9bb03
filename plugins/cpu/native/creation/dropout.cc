#include <cstring>

#include "common/clones.h"
#include "common/widened.h"
#include "creation/attributes.h"
#include "creation/philox.h"
#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

double KeepScale(double probability) { return probability < 1 ? 1 / (1 - probability) : 0; }

// Keeps the elements whose random word is at least `threshold`; drops all elements if `any` is
// false. A dropped element is set to 0 rather than multiplied by 0, since infinity times 0 is NaN.
template <typename T>
OPWRIGHT_CPU_CLONES void Drop(const uint32_t* words, uint32_t threshold, bool any, T scale,
                              const T* x, T* out, uint8_t* mask, int64_t n) {
  const uint8_t possible = any ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t keep = static_cast<uint8_t>(words[i] >= threshold) & possible;
    mask[i] = keep;
    out[i] = keep ? x[i] * scale : T{0};
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void Mask(const uint8_t* mask, T scale, const T* grad, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] != 0 ? grad[i] * scale : T{0};
}

// Dropout in training mode. Slots: x, step; out, mask.
template <typename T, typename Attrs>
struct Dropping {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    n_ = ctx.input(0).numel();
    scale_ = static_cast<T>(KeepScale(attrs.probability));
    threshold_ = static_cast<uint64_t>(attrs.probability * 0x1p32);
    ctx.SetEstimate(
        MoveNanoseconds(n_ * (10 + 2 * static_cast<int64_t>(sizeof(T))), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  // Returns a function whose arguments are random words and their range of elements.
  auto Dropper(const opwright::RunContext& ctx) const {
    // For a probability of 1, the threshold is 2^32, which no word reaches.
    const bool any = threshold_ <= UINT32_MAX;
    return [x = ctx.input(0).data<T>(), out = ctx.output(0).data<T>(),
            mask = static_cast<uint8_t*>(ctx.output(1).raw()), any, scale = scale_,
            threshold = static_cast<uint32_t>(threshold_)](const uint32_t* words, int64_t begin,
                                                           int64_t end) {
      Drop(words, threshold, any, scale, x + begin, out + begin, mask + begin, end - begin);
    };
  }
  int64_t n_ = 0;
  T scale_ = 0;
  uint64_t threshold_ = 0;
};

template <typename T>
struct DropoutKernel : Dropping<T, DropoutAttrs> {
  opwright::Status Run(const opwright::RunContext& ctx, const DropoutAttrs& attrs) const {
    const int64_t n = this->n_;
    if (n == 0) return opwright::Status::Ok();
    if (!attrs.training) {
      std::memset(ctx.output(1).raw(), 1, static_cast<size_t>(n));
      CopyBytes(Bytes(ctx.input(0)), MutableBytes(ctx.output(0)),
                n * static_cast<int64_t>(sizeof(T)), ctx.n_threads());
      return opwright::Status::Ok();
    }
    ForWords(ctx.n_threads(), KeyOf(ctx, 1, attrs), n, 1, this->Dropper(ctx));
    return opwright::Status::Ok();
  }
};

// The additional input `part` locates x in a larger tensor.
template <typename T>
struct DropoutPartKernel : Dropping<T, DropoutPartAttrs> {
  opwright::Status Run(const opwright::RunContext& ctx, const DropoutPartAttrs& attrs) const {
    if (this->n_ == 0) return opwright::Status::Ok();
    WordRuns runs;
    OPWRIGHT_RETURN_IF_ERROR(
        FindRuns(ctx.input(0), attrs.axis, ctx.input(2).template data<int64_t>(), &runs));
    ForWordsOfPart(ctx.n_threads(), KeyOf(ctx, 1, attrs), this->n_, runs, this->Dropper(ctx));
    return opwright::Status::Ok();
  }
};

// Slots: x and step (their shapes only), mask, out_grad; x_grad.
template <typename T>
struct DropoutGradKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"x_grad", "out_grad"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const DropoutAttrs& attrs) {
    n_ = ctx.output(0).numel();
    scale_ = static_cast<T>(KeepScale(attrs.probability));
    ctx.SetEstimate(
        MoveNanoseconds(n_ * (1 + 2 * static_cast<int64_t>(sizeof(T))), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const DropoutAttrs& attrs) const {
    if (n_ == 0) return opwright::Status::Ok();
    const int64_t bytes = n_ * static_cast<int64_t>(sizeof(T));
    if (!attrs.training) {
      CopyBytes(Bytes(ctx.input(3)), MutableBytes(ctx.output(0)), bytes, ctx.n_threads());
    } else {
      const auto* mask = static_cast<const uint8_t*>(ctx.input(2).raw());
      const T* grad = ctx.input(3).data<T>();
      T* x_grad = ctx.output(0).data<T>();
      ParallelFor(ctx.n_threads(), n_, kElementGrain, 64, [&](int64_t begin, int64_t end) {
        Mask(mask + begin, scale_, grad + begin, x_grad + begin, end - begin);
      });
    }
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
  T scale_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("dropout", opwright_cpu::DropoutKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("std.dropout_part", opwright_cpu::DropoutPartKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("dropout_grad", opwright_cpu::DropoutGradKernel);
