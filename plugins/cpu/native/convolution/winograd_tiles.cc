#include "convolution/winograd_tiles.h"

#include "common/clones.h"

namespace opwright_cpu {
namespace {

using Activation = GroupedEpilogue::Activation;

// NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of alias declarations
typedef float Lanes
    __attribute__((vector_size(kTileLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

OPWRIGHT_CPU_INLINE const Lanes& At(const float* place) {
  return *reinterpret_cast<const Lanes*>(place);
}
OPWRIGHT_CPU_INLINE Lanes& At(float* place) { return *reinterpret_cast<Lanes*>(place); }

// Returns whether all lanes are 0. Callers multiply by 0, which turns infinity and NaN into NaN.
OPWRIGHT_CPU_INLINE bool AreZero(const Lanes& lanes) {
  float sum = 0.0f;
  for (int64_t lane = 0; lane < kTileLanes; ++lane) sum += lanes[lane];
  return sum == 0.0f;
}

OPWRIGHT_CPU_INLINE void Finish(const Lanes& plain, const GroupedEpilogue& epilogue,
                                int64_t channel, const float* residual, float* to) {
  Lanes sum = plain;
  if (epilogue.bias != nullptr) sum += At(epilogue.bias + channel);
  if (epilogue.scale != nullptr) sum *= At(epilogue.scale + channel);
  if (epilogue.shift != nullptr) sum += At(epilogue.shift + channel);
  if (residual != nullptr) sum += At(residual + channel);
  const Lanes zero{};
  if (epilogue.activation == Activation::kRelu) {
    sum = sum < zero ? zero : sum;  // NaN stays NaN
  } else if (epilogue.activation == Activation::kRelu6) {
    const Lanes six = zero + 6.0f;
    sum = sum > zero ? sum : zero;
    sum = sum < six ? sum : six;
  }
  At(to) = sum;
}

OPWRIGHT_CPU_INLINE void GatherTaps(const WeightView& weight, int64_t channel, Lanes* taps) {
  const float* first = weight.taps + channel * weight.read_stride;
  for (int64_t lane = 0; lane < kTileLanes; ++lane) {
    const float* from = first + lane * weight.result_stride;
    for (int tap = 0; tap < kTaps; ++tap) {
      taps[tap][lane] = from[weight.is_turned ? kTaps - 1 - tap : tap];
    }
  }
}

// Recovers the taps from a transformed weight.
OPWRIGHT_CPU_INLINE void RestoreTaps(const float* weights, int64_t step, Lanes* taps) {
  const auto at = [&](int place) -> const Lanes& { return At(weights + place * step); };
  taps[0] = at(0);
  taps[1] = at(1) - at(2);
  taps[2] = at(3);
  taps[3] = at(4) - at(8);
  taps[4] = (at(5) - at(9)) - (at(6) - at(10));
  taps[5] = at(7) - at(11);
  taps[6] = at(12);
  taps[7] = at(13) - at(14);
  taps[8] = at(15);
}

}  // namespace

// Computes B^T d B for each channel.
OPWRIGHT_CPU_CLONES void TransformTile(const TileSource& tile, int64_t channels, float* to,
                                       int64_t step) {
  for (int64_t c = 0; c < channels; c += kTileLanes) {
    Lanes rows[4][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Lanes d0 = At(tile.pixels[j] + c), d1 = At(tile.pixels[4 + j] + c);
      const Lanes d2 = At(tile.pixels[8 + j] + c), d3 = At(tile.pixels[12 + j] + c);
      rows[0][j] = d0 - d2;
      rows[1][j] = d1 + d2;
      rows[2][j] = d2 - d1;
      rows[3][j] = d1 - d3;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* place = to + 4 * i * step + c;
      At(place) = rows[i][0] - rows[i][2];
      At(place + step) = rows[i][1] + rows[i][2];
      At(place + 2 * step) = rows[i][2] - rows[i][1];
      At(place + 3 * step) = rows[i][1] - rows[i][3];
    }
  }
}

// Computes A y A^T for each channel.
OPWRIGHT_CPU_CLONES void TransformOutGrads(const float* const* pixels, int64_t channels, float* to,
                                           int64_t step) {
  for (int64_t c = 0; c < channels; c += kTileLanes) {
    const Lanes first[2] = {At(pixels[0] + c), At(pixels[1] + c)};
    const Lanes second[2] = {At(pixels[2] + c), At(pixels[3] + c)};
    Lanes rows[4][2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      rows[0][j] = first[j];
      rows[1][j] = first[j] + second[j];
      rows[2][j] = first[j] - second[j];
      rows[3][j] = -second[j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* place = to + 4 * i * step + c;
      At(place) = rows[i][0];
      At(place + step) = rows[i][0] + rows[i][1];
      At(place + 2 * step) = rows[i][0] - rows[i][1];
      At(place + 3 * step) = -rows[i][1];
    }
  }
}

// Computes G^T m G for each channel.
OPWRIGHT_CPU_CLONES bool FinishWeights(const float* sums, int64_t step, int64_t n_parts,
                                       int64_t part_step, float* to) {
  Lanes rows[3][4], zeros{};
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    Lanes m[4];
    for (int i = 0; i < 4; ++i) {
      const float* place = sums + (4 * i + j) * step;
      m[i] = At(place);
      for (int64_t part = 1; part < n_parts; ++part) m[i] += At(place + part * part_step);
    }
    rows[0][j] = m[0] + 0.5f * (m[1] + m[2]);
    rows[1][j] = 0.5f * (m[1] - m[2]);
    rows[2][j] = m[3] + 0.5f * (m[1] + m[2]);
  }
  Lanes made[kTaps];
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const Lanes* row = rows[i];
    made[3 * i] = row[0] + 0.5f * (row[1] + row[2]);
    made[3 * i + 1] = 0.5f * (row[1] - row[2]);
    made[3 * i + 2] = row[3] + 0.5f * (row[1] + row[2]);
  }
  for (int tap = 0; tap < kTaps; ++tap) {
    zeros += made[tap] * 0.0f;
    for (int64_t lane = 0; lane < kTileLanes; ++lane) to[lane * kTaps + tap] = made[tap][lane];
  }
  return AreZero(zeros);
}

OPWRIGHT_CPU_CLONES void AddTapsPlainly(const TileSource& tile, const bool* is_inside, int p,
                                        int64_t channel, float out_grad, float* to) {
  for (int tap = 0; tap < kTaps; ++tap) {
    const int place = (p / 2 + tap / 3) * 4 + p % 2 + tap % 3;
    if (!is_inside[place]) continue;
    const float* from = tile.pixels[place] + channel;
    for (int64_t lane = 0; lane < kTileLanes; ++lane)
      to[lane * kTaps + tap] += out_grad * from[lane];
  }
}

// Computes A^T m A for each channel.
OPWRIGHT_CPU_CLONES bool FinishWinogradTile(const float* sums, int64_t step, int64_t channels,
                                            const GroupedEpilogue& epilogue,
                                            const TileResult& tile) {
  Lanes zeros{};
  for (int64_t c = 0; c < channels; c += kTileLanes) {
    Lanes rows[2][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const float* place = sums + j * step + c;
      const Lanes m0 = At(place), m1 = At(place + 4 * step);
      const Lanes m2 = At(place + 8 * step), m3 = At(place + 12 * step);
      rows[0][j] = m0 + m1 + m2;
      rows[1][j] = m1 - m2 - m3;
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      const Lanes* row = rows[p / 2];
      const Lanes sum = p % 2 == 0 ? row[0] + row[1] + row[2] : row[1] - row[2] - row[3];
      zeros += sum * 0.0f;
      if (tile.pixels[p] == nullptr) continue;
      Finish(sum, epilogue, c, tile.residual[p], tile.pixels[p] + c);
    }
  }
  return AreZero(zeros);
}

// Computes G g G^T for each pair of channels.
OPWRIGHT_CPU_CLONES bool TransformWeights(const WeightView& weight, int64_t channels, float* to,
                                          int64_t step, int64_t row) {
  Lanes zeros{};
  for (int64_t c = 0; c < channels; ++c) {
    Lanes taps[kTaps], rows[4][3];
    GatherTaps(weight, c, taps);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const Lanes ends = 0.5f * (taps[j] + taps[6 + j]), middle = 0.5f * taps[3 + j];
      rows[0][j] = taps[j];
      rows[1][j] = ends + middle;
      rows[2][j] = ends - middle;
      rows[3][j] = taps[6 + j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Lanes ends = 0.5f * (rows[i][0] + rows[i][2]), middle = 0.5f * rows[i][1];
      const Lanes made[4] = {rows[i][0], ends + middle, ends - middle, rows[i][2]};
      float* place = to + 4 * i * step + c * row;
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        At(place + j * step) = made[j];
        zeros += made[j] * 0.0f;
      }
    }
  }
  return AreZero(zeros);
}

OPWRIGHT_CPU_CLONES void CopyWeights(const WeightView& weight, int64_t channels, float* to,
                                     int64_t step, int64_t row) {
  for (int64_t c = 0; c < channels; ++c) {
    Lanes taps[kTaps];
    GatherTaps(weight, c, taps);
    for (int tap = 0; tap < kTaps; ++tap) At(to + tap * step + c * row) = taps[tap];
  }
}

OPWRIGHT_CPU_CLONES void SumTilePlainly(const TileSource& tile, const bool* is_inside,
                                        int64_t channels, const float* weights, int64_t step,
                                        int64_t row, bool is_plain, const GroupedEpilogue& epilogue,
                                        const TileResult& result) {
  Lanes sums[4] = {};
  for (int64_t c = 0; c < channels; ++c) {
    Lanes taps[kTaps];
    const float* from = weights + c * row;
    if (is_plain) {
      for (int tap = 0; tap < kTaps; ++tap) taps[tap] = At(from + tap * step);
    } else {
      RestoreTaps(from, step, taps);
    }
    for (int p = 0; p < 4; ++p) {
      for (int tap = 0; tap < kTaps; ++tap) {
        const int place = (p / 2 + tap / 3) * 4 + p % 2 + tap % 3;
        if (is_inside[place]) sums[p] += tile.pixels[place][c] * taps[tap];
      }
    }
  }
  for (int p = 0; p < 4; ++p) {
    if (result.pixels[p] == nullptr) continue;
    Finish(sums[p], epilogue, 0, result.residual[p], result.pixels[p]);
  }
}

}  // namespace opwright_cpu
