#include "convolution/grouped_rows.h"

#include <algorithm>

#include "convolution/grouped_tiles.h"

namespace opwright_cpu {
namespace {

using Activation = GroupedEpilogue::Activation;

constexpr int64_t kMostPixels = 8;  // pixels per tile

OPWRIGHT_CPU_INLINE void FinishTile(const GroupedEpilogue& epilogue, int64_t channel,
                                    const float* residual, int64_t step, int n,
                                    GroupedLanes* sums) {
  if (epilogue.bias != nullptr) {
    for (int p = 0; p < n; ++p) sums[p] += LanesAt(epilogue.bias + channel);
  }
  if (epilogue.scale != nullptr) {
    for (int p = 0; p < n; ++p) sums[p] *= LanesAt(epilogue.scale + channel);
  }
  if (epilogue.shift != nullptr) {
    for (int p = 0; p < n; ++p) sums[p] += LanesAt(epilogue.shift + channel);
  }
  if (residual != nullptr) {
    for (int p = 0; p < n; ++p) sums[p] += LanesAt(residual + p * step);
  }
  if (epilogue.activation == Activation::kNone) return;
  const GroupedLanes zero{};
  const GroupedLanes six = zero + 6.0f;
  for (int p = 0; p < n; ++p) {
    if (epilogue.activation == Activation::kRelu) {
      sums[p] = sums[p] < zero ? zero : sums[p];  // NaN stays NaN
    } else {
      sums[p] = sums[p] > zero ? sums[p] : zero;
      sums[p] = sums[p] < six ? sums[p] : six;
    }
  }
}

// Processes groups of kG channels; kG = 8 also supports groups whose size is a multiple of 8.
template <int kG, int kPixels>
OPWRIGHT_CPU_INLINE void SumTile(const RowWork& work, int64_t group, const GroupedPhase& phase,
                                 int64_t unit, int64_t block, int64_t pixel) {
  const GroupedSweep& sweep = *work.sweep;
  const int64_t x_step = sweep.from_step * work.unit;
  const int64_t tap_size = work.unit * group;
  const int64_t from = unit * sweep.width * work.unit + (sweep.left * work.unit + pixel * x_step);
  const float* weight =
      work.packed + (work.first_unit + unit) * work.taps * tap_size + block * group * kGroupedLanes;
  GroupedLanes sums[kPixels] = {};
  for (int64_t r = 0; r < work.rows.n; ++r) {
    const float* row = work.rows.at[r] + from;
    const float* row_weight = weight + work.rows.tap[r] * work.row_taps * tap_size;
    for (const GroupedTap& tap : phase.taps) {
      const float* x = row + tap.shift * work.unit;
      const float* tap_weight = row_weight + tap.index * tap_size;
      for (int64_t first = 0; first < group; first += kG) {
        AddTap<kG, kPixels>(x + first, x_step, tap_weight + first * kGroupedLanes, sums,
                            std::make_integer_sequence<int, kG>());
      }
    }
  }
  const int64_t channel = (work.first_unit + unit) * work.unit + block * kGroupedLanes;
  const int64_t step = sweep.to_step * sweep.to.pixel;
  const int64_t place = (phase.first + pixel * sweep.to_step) * sweep.to.pixel + channel;
  const float* residual = work.epilogue.residual;
  FinishTile(work.epilogue, channel, residual == nullptr ? nullptr : residual + place, step,
             kPixels, sums);
  for (int p = 0; p < kPixels; ++p) LanesAt(work.to + place + p * step) = sums[p];
}

template <int kG, bool kExact>
OPWRIGHT_CPU_CLONES void SumRowOf(const RowWork& work, int64_t any_group) {
  const int64_t group = kExact ? kG : any_group;
  for (int64_t unit = 0; unit < work.n_units; ++unit) {
    for (int64_t block = 0; block < work.unit / kGroupedLanes; ++block) {
      for (const GroupedPhase& phase : work.sweep->phases) {
        const int64_t n_tiles = (phase.count + kMostPixels - 1) / kMostPixels;
        int64_t pixel = 0;
        for (int64_t tile = 0; tile < n_tiles; ++tile) {
          const int64_t n = (phase.count - pixel) / (n_tiles - tile);
          switch (n) {
            case 1:
              SumTile<kG, 1>(work, group, phase, unit, block, pixel);
              break;
            case 2:
              SumTile<kG, 2>(work, group, phase, unit, block, pixel);
              break;
            case 3:
              SumTile<kG, 3>(work, group, phase, unit, block, pixel);
              break;
            case 4:
              SumTile<kG, 4>(work, group, phase, unit, block, pixel);
              break;
            case 5:
              SumTile<kG, 5>(work, group, phase, unit, block, pixel);
              break;
            case 6:
              SumTile<kG, 6>(work, group, phase, unit, block, pixel);
              break;
            case 7:
              SumTile<kG, 7>(work, group, phase, unit, block, pixel);
              break;
            default:
              SumTile<kG, 8>(work, group, phase, unit, block, pixel);
              break;
          }
          pixel += n;
        }
      }
    }
  }
}

template <int kG, int... kTap>
OPWRIGHT_CPU_INLINE void SumOutGradsOfTaps(const OutGradsWork& work, const float* row,
                                           const float* out_grads, float* sums,
                                           const GroupedTap* tap,
                                           std::integer_sequence<int, kTap...> taps) {
  const GroupedSweep& sweep = *work.sweep;
  const float* x[] = {row + (sweep.left + tap[kTap].shift) * work.unit...};
  float* to[] = {sums + tap[kTap].index * work.unit * kG...};
  for (int first = 0; first < kG; first += kGroupedLanes) {
    AddPixels<kG>(x, sweep.from_step * work.unit, out_grads, work.unit, sweep.to.sizes[2], to,
                  taps);
    for (const float*& at : x) at += kGroupedLanes;
    for (float*& at : to) at += kGroupedLanes * kGroupedLanes;
  }
}

template <int kG>
OPWRIGHT_CPU_CLONES void SumOutGradsOf(const OutGradsWork& work) {
  constexpr int64_t kTogether = kG < kGroupedLanes ? 3 : 1;  // limited by the number of registers
  const GroupedSweep& sweep = *work.sweep;
  const std::vector<GroupedTap>& taps = sweep.phases[0].taps;
  const auto n_taps = static_cast<int64_t>(taps.size());
  for (int64_t unit = 0; unit < work.n_units; ++unit) {
    for (int64_t block = 0; block < work.unit / kGroupedLanes; ++block) {
      const float* out_grads =
          work.out_grads + unit * sweep.to.sizes[2] * work.unit + block * kGroupedLanes;
      for (int64_t r = 0; r < work.rows.n; ++r) {
        const float* row = work.rows.at[r] + unit * sweep.width * work.unit;
        const int64_t first = unit * work.taps + work.rows.tap[r] * work.row_taps;
        float* sums = work.sums + first * work.unit * kG + block * kG * kGroupedLanes;
        int64_t tap = 0;
        for (; tap + kTogether <= n_taps; tap += kTogether) {
          SumOutGradsOfTaps<kG>(work, row, out_grads, sums, taps.data() + tap,
                                std::make_integer_sequence<int, kTogether>());
        }
        for (; tap < n_taps; ++tap) {
          SumOutGradsOfTaps<kG>(work, row, out_grads, sums, taps.data() + tap,
                                std::make_integer_sequence<int, 1>());
        }
      }
    }
  }
}

// Calls function with the group size as a compile-time constant.
template <typename Function>
void WithGroup(int64_t group, const Function& function) {
  switch (group) {
    case 2:
      return function(std::integral_constant<int, 2>());
    case 4:
      return function(std::integral_constant<int, 4>());
    case 8:
      return function(std::integral_constant<int, 8>());
    case 16:
      return function(std::integral_constant<int, 16>());
    default:
      return function(std::integral_constant<int, 32>());
  }
}

}  // namespace

void SumRow(int64_t group, const RowWork& work) {
  if (group > kGroupedLanes) return SumRowOf<kGroupedLanes, false>(work, group);
  WithGroup(group, [&](auto constant) {
    SumRowOf<std::min<int>(decltype(constant)::value, kGroupedLanes), true>(work, group);
  });
}

void SumOutGrads(int64_t group, const OutGradsWork& work) {
  WithGroup(group, [&](auto constant) { SumOutGradsOf<decltype(constant)::value>(work); });
}

}  // namespace opwright_cpu
