// Philox 4x32-10: four random words as a pure function of seed, stream, step and block index, as
// specified in opwright_std/numerics/philox.py.
#ifndef OPWRIGHT_CUDA_PHILOX_H_
#define OPWRIGHT_CUDA_PHILOX_H_

#include "kernel.h"

namespace opwright_cuda {

// The key from which an operator draws random words. Every run reads the step again.
struct RandomKey {
  uint64_t seed;
  const int64_t* step;  // null means 0
  uint32_t stream;
};

struct RandomBlock {
  uint32_t words[4];
};

OW_INLINE uint32_t StepOf(const RandomKey& key) {
  return key.step == nullptr ? 0u : static_cast<uint32_t>(*key.step);
}

OW_INLINE RandomBlock Philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t block) {
  uint32_t c0 = static_cast<uint32_t>(block);
  uint32_t c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = stream;
  uint32_t c3 = step;
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(c0) * 0xD2511F53u;
    const uint64_t p1 = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns one of the two 64-bit words of a block; in each, the low half comes first.
OW_INLINE uint64_t LongWord(const RandomBlock& block, int which) {
  return static_cast<uint64_t>(block.words[2 * which + 1]) << 32 | block.words[2 * which];
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_PHILOX_H_
