// uniform and normal, compiled without contraction, because the specification rounds every product.
#include <opwright/functors/box_muller.h>

#include "common/clones.h"
#include "common/widened.h"
#include "creation/attributes.h"
#include "creation/philox.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

constexpr double kNanosecondsPerWord = 1.0;

template <typename T>
constexpr int64_t kWordsEach = static_cast<int64_t>(sizeof(T)) / 4;

OPWRIGHT_CPU_CLONES void Uniform(const uint32_t* words, float* out, int64_t n, float range,
                                 float low) {
  for (int64_t i = 0; i < n; ++i) {
    const auto number = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f;
    out[i] = number * range + low;
  }
}

OPWRIGHT_CPU_CLONES void Uniform(const uint32_t* words, double* out, int64_t n, double range,
                                 double low) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t word = static_cast<uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
    const auto number = static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
    out[i] = number * range + low;
  }
}

// Writes complete pairs; n is even.
template <typename T>
OPWRIGHT_CPU_CLONES void Normal(const uint32_t* words, T* out, int64_t n, T std, T mean) {
  for (int64_t j = 0; j < n / 2; ++j) {
    const auto pair = functors::BoxMuller(functors::WordPair<T>::Read(words, j));
    out[2 * j] = pair.first * std + mean;
    out[2 * j + 1] = pair.second * std + mean;
  }
}

template <typename Attrs, typename T>
struct RandomKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    n_ = ctx.output(0).numel();
    const double words = static_cast<double>(n_ * kWordsEach<T>);
    ctx.SetEstimate(static_cast<uint64_t>(20 + words * kNanosecondsPerWord / ctx.n_threads()));
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
};

template <typename T>
struct UniformKernel : RandomKernel<UniformAttrs, T> {
  opwright::Status Run(const opwright::RunContext& ctx, const UniformAttrs& attrs) const {
    T* out = ctx.output(0).template data<T>();
    const auto range = static_cast<T>(attrs.max - attrs.min);
    const auto low = static_cast<T>(attrs.min);
    ForWords(ctx.n_threads(), KeyOf(ctx, 0, attrs), this->n_, kWordsEach<T>,
             [=](const uint32_t* words, int64_t begin, int64_t end) {
               Uniform(words, out + begin, end - begin, range, low);
             });
    return opwright::Status::Ok();
  }
};

template <typename T>
struct NormalKernel : RandomKernel<NormalAttrs, T> {
  opwright::Status Run(const opwright::RunContext& ctx, const NormalAttrs& attrs) const {
    T* out = ctx.output(0).template data<T>();
    const auto std = static_cast<T>(attrs.std);
    const auto mean = static_cast<T>(attrs.mean);
    ForWords(ctx.n_threads(), KeyOf(ctx, 0, attrs), this->n_, kWordsEach<T>,
             [=](const uint32_t* words, int64_t begin, int64_t end) {
               const int64_t n = end - begin;
               const int64_t even = n / 2 * 2;
               Normal<T>(words, out + begin, even, std, mean);
               if (even == n) return;
               T last[2];  // for odd n, the second element of the last pair is dropped
               Normal<T>(words + even * kWordsEach<T>, last, 2, std, mean);
               out[end - 1] = last[0];
             });
    return opwright::Status::Ok();
  }
};

// Values beyond two standard deviations are redrawn from blocks far behind the blocks of the
// previous attempt; see box_muller.py.
template <typename T>
struct TruncatedNormalKernel : RandomKernel<NormalAttrs, T> {
  opwright::Status Run(const opwright::RunContext& ctx, const NormalAttrs& attrs) const {
    T* out = ctx.output(0).template data<T>();
    const auto std = static_cast<T>(attrs.std);
    const auto mean = static_cast<T>(attrs.mean);
    const PhiloxKey key = KeyOf(ctx, 0, attrs);
    ForWords(ctx.n_threads(), key, this->n_, kWordsEach<T>,
             [=](const uint32_t* words, int64_t begin, int64_t end) {
               T numbers[kPhiloxWords];
               T again[kPhiloxWords];
               const int64_t n = end - begin;
               const int64_t even = (n + 1) / 2 * 2;
               Normal<T>(words, numbers, even, T{1}, T{0});
               alignas(64) uint32_t others[kPhiloxWords];
               const auto first = static_cast<uint64_t>(begin * kWordsEach<T> / 4);
               for (uint64_t attempt = 1; AnyOutside(numbers, n); ++attempt) {
                 PhiloxWords(key, first + (attempt << 48), others);
                 Normal<T>(others, again, even, T{1}, T{0});
                 for (int64_t i = 0; i < n; ++i) {
                   if (IsOutside(numbers[i])) numbers[i] = again[i];
                 }
               }
               for (int64_t i = 0; i < n; ++i) out[begin + i] = numbers[i] * std + mean;
             });
    return opwright::Status::Ok();
  }

  static bool IsOutside(T number) { return number > 2 || number < -2; }
  static bool AnyOutside(const T* numbers, int64_t n) {
    bool any = false;
    for (int64_t i = 0; i < n; ++i) any |= IsOutside(numbers[i]);
    return any;
  }
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("uniform", opwright_cpu::UniformKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("normal", opwright_cpu::NormalKernel);
OPWRIGHT_CPU_REGISTER_FLOATS("truncated_normal", opwright_cpu::TruncatedNormalKernel);
