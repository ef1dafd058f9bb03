// The Winograd transforms, which process sixteen channels at once. Transformed tiles are stored as
// matrices [tiles, channels], one for each of the 16 positions of a tile, `step` elements apart.
#ifndef OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_
#define OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_

#include <cstdint>

#include "convolution/grouped_rows.h"

namespace opwright_cpu {

constexpr int64_t kTileLanes = 16;
constexpr int kTilePlaces = 16;  // a tile has 4 x 4 pixels
constexpr int kTaps = 9;

// Pointers to the pixels of a tile, [.., channels]; a pixel outside the image points to zeros.
struct TileSource {
  const float* pixels[kTilePlaces];
};
// Pointers to the pixels of the result; the pointer to a pixel outside the image is NULL.
struct TileResult {
  float* pixels[4];
  const float* residual[4];
};

// Writes the transform of the pixels to to[place * step + c].
void TransformTile(const TileSource& tile, int64_t channels, float* to, int64_t step);

// Computes the pixels of the result from sums[place * step + c] and applies the epilogue. Returns
// whether all sums are finite. The pointers in `epilogue` and `tile` point to the first channel.
bool FinishWinogradTile(const float* sums, int64_t step, int64_t channels,
                        const GroupedEpilogue& epilogue, const TileResult& tile);

// Transforms the output gradients of a tile's four pixels, for the weight gradient.
void TransformOutGrads(const float* const* pixels, int64_t channels, float* to, int64_t step);

// Computes the gradients of all taps of 16 channels, to[channel * 9 + tap], from sums of products,
// which are stored in n_parts parts. Returns whether all gradients are finite.
bool FinishWeights(const float* sums, int64_t step, int64_t n_parts, int64_t part_step, float* to);

// Adds the output gradient of pixel p, times the pixels of its taps, to the gradients of all taps
// of 16 channels.
void AddTapsPlainly(const TileSource& tile, const bool* is_inside, int p, int64_t channel,
                    float out_grad, float* to);

// The positions of a weight's taps.
struct WeightView {
  const float* taps;    // taps of read channel 0 and result channel 0
  int64_t read_stride;  // stride between read channels
  int64_t result_stride;
  bool is_turned;  // whether the taps are in reverse order
};

// Writes the transformed weights of 16 result channels to to[place * step + c * row + lane] for
// each channel c that is read. Returns whether all weights are finite.
bool TransformWeights(const WeightView& weight, int64_t channels, float* to, int64_t step,
                      int64_t row);

// Copies the taps unchanged to the first 9 positions of the layout of TransformWeights.
void CopyWeights(const WeightView& weight, int64_t channels, float* to, int64_t step, int64_t row);

// Computes pixels of 16 result channels by direct sums, from transformed weights or, if `is_plain`,
// from copied taps.
void SumTilePlainly(const TileSource& tile, const bool* is_inside, int64_t channels,
                    const float* weights, int64_t step, int64_t row, bool is_plain,
                    const GroupedEpilogue& epilogue, const TileResult& result);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_TILES_H_
