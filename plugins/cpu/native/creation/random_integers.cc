// bernoulli and randint, as specified in opwright_std/numerics/philox.py.
#include <atomic>
#include <cmath>

#include "common/clones.h"
#include "common/widened.h"
#include "creation/attributes.h"
#include "creation/philox.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES bool Draw(const uint32_t* words, const T* x, T* out, int64_t n) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    wrong |= !(x[i] >= 0 && x[i] <= 1);
    // This comparison is exact, since the word, its multiple of 2^-32 and x are doubles.
    const double least = static_cast<double>(x[i]) * 0x1p32;
    out[i] = static_cast<double>(words[i]) < std::floor(least) ? T{1} : T{0};
  }
  return wrong == 0;
}

// The base class of the kernels with the inputs x and step.
template <typename T, typename Attrs>
struct DrawingOnes {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    n_ = ctx.output(0).numel();
    ctx.SetEstimate(static_cast<uint64_t>(20 + 2 * n_ / ctx.n_threads()));
    return opwright::Status::Ok();
  }
  // Calls for_words with a function whose arguments are random words and their range of elements.
  template <typename ForElements>
  opwright::Status DrawAll(const opwright::RunContext& ctx, const ForElements& for_words) const {
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    std::atomic<bool> is_right{true};
    for_words([&](const uint32_t* words, int64_t begin, int64_t end) {
      if (!Draw(words, x + begin, out + begin, end - begin)) is_right = false;
    });
    if (is_right) return opwright::Status::Ok();
    int64_t i = 0;
    while (x[i] >= 0 && x[i] <= 1) ++i;
    return opwright::Status::Error("x must be in [0, 1], got ", x[i]);
  }
  int64_t n_ = 0;
};

template <typename T>
struct BernoulliKernel : DrawingOnes<T, SeedAttrs> {
  opwright::Status Run(const opwright::RunContext& ctx, const SeedAttrs& attrs) const {
    return this->DrawAll(ctx, [&](const auto& draw) {
      ForWords(ctx.n_threads(), KeyOf(ctx, 1, attrs), this->n_, 1, draw);
    });
  }
};

// The additional input `part` locates x in a larger tensor.
template <typename T>
struct BernoulliPartKernel : DrawingOnes<T, SeedPartAttrs> {
  opwright::Status Run(const opwright::RunContext& ctx, const SeedPartAttrs& attrs) const {
    if (this->n_ == 0) return opwright::Status::Ok();
    WordRuns runs;
    OPWRIGHT_RETURN_IF_ERROR(
        FindRuns(ctx.input(0), attrs.axis, ctx.input(2).template data<int64_t>(), &runs));
    return this->DrawAll(ctx, [&](const auto& draw) {
      ForWordsOfPart(ctx.n_threads(), KeyOf(ctx, 1, attrs), this->n_, runs, draw);
    });
  }
};

// Returns the upper 64 bits of a product.
OPWRIGHT_CPU_INLINE uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xffffffffu;
  const uint64_t b_low = b & 0xffffffffu;
  const uint64_t middle = (a >> 32) * b_low + (a_low * b_low >> 32);
  const uint64_t other = a_low * (b >> 32) + (middle & 0xffffffffu);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

template <typename T>
OPWRIGHT_CPU_CLONES void DrawWhole(const uint32_t* words, T* out, int64_t n, uint64_t range,
                                   uint64_t low) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t word = static_cast<uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
    out[i] = static_cast<T>(MultiplyHigh(word, range) + low);
  }
}

template <typename T>
struct RandintKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const RandintAttrs&) {
    n_ = ctx.output(0).numel();
    ctx.SetEstimate(static_cast<uint64_t>(20 + 3 * n_ / ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const RandintAttrs& attrs) const {
    T* out = ctx.output(0).template data<T>();
    const auto low = static_cast<uint64_t>(attrs.low);
    const uint64_t range = static_cast<uint64_t>(attrs.high) - low;
    ForWords(ctx.n_threads(), KeyOf(ctx, 0, attrs), n_, 2,
             [=](const uint32_t* words, int64_t begin, int64_t end) {
               DrawWhole(words, out + begin, end - begin, range, low);
             });
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("bernoulli", opwright_cpu::BernoulliKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("std.bernoulli_part", opwright_cpu::BernoulliPartKernel);
OPWRIGHT_REGISTER_KERNEL_FOR("randint", "cpu", opwright_cpu::RandintKernel, int8_t, int16_t,
                             int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t);
