#include "runtime/bundle/sha256.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <cstring>

namespace opwright {

namespace {

constexpr size_t kBlock = 64;

constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t RotateRight(uint32_t word, int n) { return word >> n | word << (32 - n); }

uint32_t BigEndian(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

void AddBlock(const uint8_t* block, std::array<uint32_t, 8>* state) {
  std::array<uint32_t, 64> words;
  for (size_t i = 0; i < 16; ++i) words[i] = BigEndian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t early = words[i - 15];
    const uint32_t late = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] +
               (RotateRight(early, 7) ^ RotateRight(early, 18) ^ early >> 3) +
               (RotateRight(late, 17) ^ RotateRight(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t first = h + (RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const uint32_t second = (RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22)) +
                            ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < added.size(); ++i) (*state)[i] += added[i];
}

#ifdef __x86_64__

bool HasShaInstructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (b & bit_SHA) != 0;
}

// Adds complete blocks with the processor's SHA-256 instructions, which is seven times as fast.
__attribute__((target("sha,sse4.1"))) void AddBlocksFast(const uint8_t* data, size_t n_blocks,
                                                         std::array<uint32_t, 8>* state) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* halves = reinterpret_cast<__m128i*>(state->data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (const uint8_t* end = data + kBlock * n_blocks; data != end; data += kBlock) {
    __m128i words[4];  // words for four rounds each
    for (int i = 0; i < 4; ++i) {
      const auto* four = reinterpret_cast<const __m128i*>(data) + i;
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(four), big_endian);
    }
    const __m128i old_abef = abef;
    const __m128i old_cdgh = cdgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const auto* rounds = reinterpret_cast<const __m128i*>(kRounds.data()) + i;
      const __m128i sum = _mm_add_epi32(words[i % 4], _mm_loadu_si128(rounds));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      const __m128i last = words[(i + 3) % 4];
      const __m128i early = _mm_sha256msg1_epu32(words[i % 4], words[(i + 1) % 4]);
      const __m128i middle = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
      words[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(early, middle), last);
    }
    abef = _mm_add_epi32(abef, old_abef);
    cdgh = _mm_add_epi32(cdgh, old_cdgh);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#endif  // __x86_64__

}  // namespace

Digest Sha256(const uint8_t* data, size_t size) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  size_t done = 0;
#ifdef __x86_64__
  static const bool is_fast = HasShaInstructions();  // cached, as it is slow in virtual machines
  if (is_fast) {
    done = size / kBlock * kBlock;
    AddBlocksFast(data, size / kBlock, &state);
  }
#endif
  for (; size - done >= kBlock; done += kBlock) AddBlock(data + done, &state);
  std::array<uint8_t, 2 * kBlock> rest{};
  const size_t left = size - done;
  if (left != 0) std::memcpy(rest.data(), data + done, left);
  rest[left] = 0x80;
  const size_t padded = left + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t bits = static_cast<uint64_t>(size) * 8;
  for (size_t i = 0; i < 8; ++i) rest[padded - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t i = 0; i < padded; i += kBlock) AddBlock(rest.data() + i, &state);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace opwright
