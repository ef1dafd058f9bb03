#include "common/half_rows.h"

#include <cstring>

#include "common/clones.h"
#include "common/half.h"
#include "common/stream.h"

namespace opwright_cpu {
namespace {

OPWRIGHT_CPU_CLONES void WidenBFloat16(const void* from, float* to, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = FloatOfBFloat16(bits[i]);
}

OPWRIGHT_CPU_CLONES void NarrowBFloat16(const float* from, void* to, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) bits[i] = BFloat16OfFloat(from[i]);
}

void WidenFloat16(const void* from, float* to, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = FloatOfFloat16(bits[i]);
}

void NarrowFloat16(const float* from, void* to, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) bits[i] = Float16OfFloat(from[i]);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

// The rest of a row is also converted as a vector so that all elements are converted identically.
OPWRIGHT_CPU_AVX2 void WidenFloat16Avx2(const void* from, float* to, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bits + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  if (i == n) return;
  alignas(16) uint16_t rest[8] = {};
  alignas(32) float wide[8];
  std::memcpy(rest, bits + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
  _mm256_store_ps(wide, _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(rest))));
  std::memcpy(to + i, wide, static_cast<size_t>(n - i) * sizeof(float));
}

OPWRIGHT_CPU_AVX2 void NarrowFloat16Avx2(const float* from, void* to, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), kNearest);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bits + i), halves);
  }
  if (i == n) return;
  alignas(32) float rest[8] = {};
  alignas(16) uint16_t halves[8];
  std::memcpy(rest, from + i, static_cast<size_t>(n - i) * sizeof(float));
  _mm_store_si128(reinterpret_cast<__m128i*>(halves),
                  _mm256_cvtps_ph(_mm256_load_ps(rest), kNearest));
  std::memcpy(bits + i, halves, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

// Intrinsics without a mask leave an operand undefined, about which GCC 12 warns.
constexpr __mmask16 kAll = 0xffff;

OPWRIGHT_CPU_AVX512 void WidenFloat16Avx512(const void* from, float* to, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + i));
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(kAll, halves));
  }
  if (i == n) return;
  const auto mask = static_cast<__mmask16>((1u << (n - i)) - 1u);
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, bits + i);
  _mm512_mask_storeu_ps(to + i, mask, _mm512_maskz_cvtph_ps(mask, halves));
}

struct RoundToFloat16 {
  __attribute__((target("avx512f"))) static inline __m256i Round(__m512 x) {
    return _mm512_maskz_cvtps_ph(kAll, x, kNearest);
  }
};

// Rounds like BFloat16OfFloat.
struct RoundToBFloat16 {
  __attribute__((target("avx512f"))) static inline __m256i Round(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i high = _mm512_maskz_srli_epi32(kAll, bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i raised = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    const __m512i nearest = _mm512_maskz_srli_epi32(kAll, _mm512_add_epi32(raised, odd), 16);
    const __m512i sign = _mm512_and_si512(high, _mm512_set1_epi32(0x8000));
    const __m512i nan = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc0));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_maskz_cvtepi32_epi16(kAll, _mm512_mask_mov_epi32(nearest, is_nan, nan));
  }
};

template <typename Rounding>
OPWRIGHT_CPU_AVX512 void NarrowAvx512(const float* from, void* to, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = Rounding::Round(_mm512_loadu_ps(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bits + i), halves);
  }
  if (i == n) return;
  const auto mask = static_cast<__mmask16>((1u << (n - i)) - 1u);
  _mm256_mask_storeu_epi16(bits + i, mask, Rounding::Round(_mm512_maskz_loadu_ps(mask, from + i)));
}

HalfRows SelectFloat16() {
  return ForThisProcessor<HalfRows>({&WidenFloat16, &NarrowFloat16},
                                    {&WidenFloat16Avx2, &NarrowFloat16Avx2},
                                    {&WidenFloat16Avx512, &NarrowAvx512<RoundToFloat16>});
}

// GCC's vector extensions take twice as many steps to pack the upper halves of 32-bit integers.
HalfRows SelectBFloat16() {
  return ForThisProcessor<HalfRows>({&WidenBFloat16, &NarrowBFloat16},
                                    {&WidenBFloat16, &NarrowBFloat16},
                                    {&WidenBFloat16, &NarrowAvx512<RoundToBFloat16>});
}
#else
HalfRows SelectFloat16() { return {&WidenFloat16, &NarrowFloat16}; }
HalfRows SelectBFloat16() { return {&WidenBFloat16, &NarrowBFloat16}; }
#endif

}  // namespace

const HalfRows& HalfRowsOf(DLDataType dtype) {
  static const HalfRows float16 = SelectFloat16();
  static const HalfRows bfloat16 = SelectBFloat16();
  return dtype.code == kDLBfloat ? bfloat16 : float16;
}

double RoundedTo(DLDataType dtype, double value) {
  if (!IsHalf(dtype)) return value;
  if (dtype.code == kDLFloat) return static_cast<double>(FloatOfFloat16(Float16OfDouble(value)));
  return static_cast<double>(FloatOfBFloat16(BFloat16OfFloat(static_cast<float>(value))));
}

}  // namespace opwright_cpu
