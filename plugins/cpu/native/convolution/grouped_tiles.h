// The innermost loops of convolution in groups of few channels. The loops process eight channels of
// a few pixels at once. All functions are inlined into callers that are compiled for several
// instruction sets.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GROUPED_TILES_H_
#define OPWRIGHT_CPU_CONVOLUTION_GROUPED_TILES_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/clones.h"

namespace opwright_cpu {

constexpr int64_t kGroupedLanes = 8;
// NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of alias declarations
typedef float GroupedLanes
    __attribute__((vector_size(kGroupedLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

OPWRIGHT_CPU_INLINE const GroupedLanes& LanesAt(const float* at) {
  return *reinterpret_cast<const GroupedLanes*>(at);
}
OPWRIGHT_CPU_INLINE GroupedLanes& LanesAt(float* at) {
  return *reinterpret_cast<GroupedLanes*>(at);
}

// Adds to each lane of `sum` the weight times channel kI of the lane's group of kG channels. x
// begins with the first group.
template <int kG, int kI, int... kLane>
OPWRIGHT_CPU_INLINE void AddProduct(const float* x, const GroupedLanes& weight, GroupedLanes* sum,
                                    std::integer_sequence<int, kLane...>) {
  if constexpr (kG >= kGroupedLanes) {
    *sum += x[kI] * weight;
  } else {
    const GroupedLanes all = LanesAt(x);
    *sum += __builtin_shufflevector(all, all, (kLane / kG * kG + kI)...) * weight;
  }
}

// Adds channel kI for kPixels pixels, which are x_step elements apart.
template <int kG, int kPixels, int kI>
OPWRIGHT_CPU_INLINE void AddChannel(const float* x, int64_t x_step, const float* weight,
                                    GroupedLanes* sums) {
  const GroupedLanes by = LanesAt(weight + kI * kGroupedLanes);
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
    AddProduct<kG, kI>(x + p * x_step, by, sums + p,
                       std::make_integer_sequence<int, kGroupedLanes>());
  }
}

// Adds all channels of a group; `weight` is [kG, 8].
template <int kG, int kPixels, int... kI>
OPWRIGHT_CPU_INLINE void AddTap(const float* x, int64_t x_step, const float* weight,
                                GroupedLanes* sums, std::integer_sequence<int, kI...>) {
  (AddChannel<kG, kPixels, kI>(x, x_step, weight, sums), ...);
}

// Adds to `sums`, for each tap, the products of the output gradients and the channels of a group.
template <int kG, int kTap, int... kI>
OPWRIGHT_CPU_INLINE void AddOutGrads(const float* x, const GroupedLanes& out_grads,
                                     GroupedLanes* sums, std::integer_sequence<int, kI...>) {
  (AddProduct<kG, kI>(x, out_grads, sums + kTap * static_cast<int>(sizeof...(kI)) + kI,
                      std::make_integer_sequence<int, kGroupedLanes>()),
   ...);
}

// Adds to sums[tap][i], of shape [taps, min(kG, 8), 8], the output gradients of n pixels times
// channel i of each tap's pixel.
template <int kG, int... kTap>
OPWRIGHT_CPU_INLINE void AddPixels(const float* const* x, int64_t x_step, const float* out_grads,
                                   int64_t out_grads_step, int64_t n, float* const* sums,
                                   std::integer_sequence<int, kTap...>) {
  constexpr int kTapsAtOnce = sizeof...(kTap);
  constexpr int kChannels = std::min<int>(kG, kGroupedLanes);
  GroupedLanes own[kTapsAtOnce * kChannels];
#pragma GCC unroll 32
  for (int i = 0; i < kTapsAtOnce * kChannels; ++i) {
    own[i] = LanesAt(sums[i / kChannels] + i % kChannels * kGroupedLanes);
  }
  for (int64_t p = 0; p < n; ++p) {
    const GroupedLanes out_grad = LanesAt(out_grads + p * out_grads_step);
    (AddOutGrads<kG, kTap>(x[kTap] + p * x_step, out_grad, own,
                           std::make_integer_sequence<int, kChannels>()),
     ...);
  }
#pragma GCC unroll 32
  for (int i = 0; i < kTapsAtOnce * kChannels; ++i) {
    LanesAt(sums[i / kChannels] + i % kChannels * kGroupedLanes) = own[i];
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GROUPED_TILES_H_
