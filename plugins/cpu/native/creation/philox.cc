#include "creation/philox.h"

#include "common/clones.h"

namespace opwright_cpu {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr int kPhiloxLanes = 32;  // counters whose rounds are in flight together

OPWRIGHT_CPU_CLONES void Words(uint64_t seed, uint32_t stream, uint32_t step, uint64_t first_block,
                               uint32_t* words) {
  for (int64_t block = 0; block < kPhiloxBlocks; block += kPhiloxLanes) {
    uint32_t c0[kPhiloxLanes];
    uint32_t c1[kPhiloxLanes];
    uint32_t c2[kPhiloxLanes];
    uint32_t c3[kPhiloxLanes];
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const uint64_t number = first_block + static_cast<uint64_t>(block + lane);
      c0[lane] = static_cast<uint32_t>(number);
      c1[lane] = static_cast<uint32_t>(number >> 32);
      c2[lane] = stream;
      c3[lane] = step;
    }
    auto k0 = static_cast<uint32_t>(seed);
    auto k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      for (int lane = 0; lane < kPhiloxLanes; ++lane) {
        const uint64_t p0 = static_cast<uint64_t>(c0[lane]) * kMultiplier0;
        const uint64_t p1 = static_cast<uint64_t>(c2[lane]) * kMultiplier1;
        c0[lane] = static_cast<uint32_t>(p1 >> 32) ^ c1[lane] ^ k0;
        c2[lane] = static_cast<uint32_t>(p0 >> 32) ^ c3[lane] ^ k1;
        c1[lane] = static_cast<uint32_t>(p1);
        c3[lane] = static_cast<uint32_t>(p0);
      }
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      words[4 * (block + lane)] = c0[lane];
      words[4 * (block + lane) + 1] = c1[lane];
      words[4 * (block + lane) + 2] = c2[lane];
      words[4 * (block + lane) + 3] = c3[lane];
    }
  }
}

}  // namespace

void PhiloxWords(const PhiloxKey& key, uint64_t first_block, uint32_t* words) {
  Words(key.seed, key.stream, key.step, first_block, words);
}

}  // namespace opwright_cpu
