#include "common/half_sum.h"

#include "common/clones.h"
#include "common/half.h"
#include "common/half_rows.h"
#include "common/stream.h"

namespace opwright_cpu {
namespace {

// Sums in sixteen lanes, for any vector width of the processor.
template <float (*Widened)(uint16_t)>
OPWRIGHT_CPU_INLINE float SumLanes(const void* from, int64_t n) {
  constexpr int64_t kLanes = 16;
  const auto* bits = static_cast<const uint16_t*>(from);
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += Widened(bits[i + lane]);
  }
  for (; i < n; ++i) lanes[i % kLanes] += Widened(bits[i]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

OPWRIGHT_CPU_CLONES float SumBFloat16(const void* from, int64_t n) {
  return SumLanes<FloatOfBFloat16>(from, n);
}

OPWRIGHT_CPU_CLONES float SumFloat16(const void* from, int64_t n) {
  return SumLanes<FloatOfFloat16>(from, n);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Intrinsics without a mask leave an operand undefined, about which GCC 12 warns.
constexpr __mmask16 kSixteen = 0xffff;

struct WidenFrom16 {
  __attribute__((target("avx512f"))) static inline __m512 Widen(__m256i halves) {
    return _mm512_maskz_cvtph_ps(kSixteen, halves);
  }
};
struct WidenFromB16 {
  __attribute__((target("avx512f"))) static inline __m512 Widen(__m256i halves) {
    const __m512i bits = _mm512_maskz_cvtepu16_epi32(kSixteen, halves);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kSixteen, bits, 16));
  }
};

// Keeps four sums, since a single sum would be a dependency chain.
template <typename Widening>
OPWRIGHT_CPU_AVX512 float SumAvx512(const void* from, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                    _mm512_setzero_ps()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int64_t k = 0; k < 4; ++k) {
      const auto* at = reinterpret_cast<const __m256i*>(bits + i + 16 * k);
      sums[k] = _mm512_add_ps(sums[k], Widening::Widen(_mm256_loadu_si256(at)));
    }
  }
  for (int64_t k = 0; i < n; i += 16, ++k) {
    const uint32_t left = n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1u;
    const __m256i halves = _mm256_maskz_loadu_epi16(static_cast<__mmask16>(left), bits + i);
    sums[k] = _mm512_add_ps(sums[k], Widening::Widen(halves));
  }
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes,
                  _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
  for (int half = 8; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

HalfSum SelectSumOfFloat16() {
  return ForThisProcessor<HalfSum>(&SumFloat16, &SumFloat16, &SumAvx512<WidenFrom16>);
}
HalfSum SelectSumOfBFloat16() {
  return ForThisProcessor<HalfSum>(&SumBFloat16, &SumBFloat16, &SumAvx512<WidenFromB16>);
}
#else
HalfSum SelectSumOfFloat16() { return &SumFloat16; }
HalfSum SelectSumOfBFloat16() { return &SumBFloat16; }
#endif

}  // namespace

HalfSum HalfSumOf(DLDataType dtype) {
  static const HalfSum float16 = SelectSumOfFloat16();
  static const HalfSum bfloat16 = SelectSumOfBFloat16();
  return dtype.code == kDLBfloat ? bfloat16 : float16;
}

}  // namespace opwright_cpu
