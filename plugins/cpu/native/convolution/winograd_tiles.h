// Winograd's transforms, sixteen channels at once. Transformed tiles are matrices [tiles,
// channels], one for each of the 16 places of a tile, `step` elements apart.
#ifndef OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_
#define OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_

#include <cstdint>

#include "convolution/grouped_rows.h"

namespace opwright_cpu {

constexpr int64_t kTileLanes = 16;
constexpr int kTilePlaces = 16;  // of 4 x 4 pixels
constexpr int kTaps = 9;

// Pixels of a tile, [.., channels]; one outside of its image is a pixel of zeros.
struct TileSource {
  const float* pixels[kTilePlaces];
};
// Pixels of the result; one outside is NULL.
struct TileResult {
  float* pixels[4];
  const float* residual[4];
};

// to[place * step + c] of the pixels.
void TransformTile(const TileSource& tile, int64_t channels, float* to, int64_t step);

// The pixels of the result from sums[place * step + c], with the operators after them. Returns
// whether all sums are finite. Places of `epilogue` and `tile` begin with the first channel.
bool FinishWinogradTile(const float* sums, int64_t step, int64_t channels,
                        const GroupedEpilogue& epilogue, const TileResult& tile);

// The same of output gradients of the four pixels of a tile, for the gradient of the weight.
void TransformOutGrads(const float* const* pixels, int64_t channels, float* to, int64_t step);

// The gradients of all taps of 16 channels, to[channel * 9 +
// tap], of the sums of products, which are in n_parts parts. Returns whether all are finite.
bool FinishWeights(const float* sums, int64_t step, int64_t n_parts, int64_t part_step, float* to);

// Adds the output gradient of pixel p of the result times
// 16 channels of its taps' pixels, to the same places.
void AddTapsPlainly(const TileSource& tile, const bool* is_inside, int p, int64_t channel,
                    float out_grad, float* to);

// The positions of a weight's taps.
struct WeightView {
  const float* taps;    // of read channel 0 and result channel 0
  int64_t read_stride;  // between read channels
  int64_t result_stride;
  bool is_turned;  // the last tap comes first
};

// The transformed weights of 16 result channels: to[place * step + c * row + lane] for each read
// channel c. Returns whether all are finite.
bool TransformWeights(const WeightView& weight, int64_t channels, float* to, int64_t step,
                      int64_t row);

// The same places; the first 9 contain the unchanged taps.
void CopyWeights(const WeightView& weight, int64_t channels, float* to, int64_t step, int64_t row);

// The pixels of the result by plain sums: of 16 result channels, from transformed weights, or from
// copied ones if `is_plain`.
void SumTilePlainly(const TileSource& tile, const bool* is_inside, int64_t channels,
                    const float* weights, int64_t step, int64_t row, bool is_plain,
                    const GroupedEpilogue& epilogue, const TileResult& result);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_
