#include "convolution/winograd_gradient.h"

#include <algorithm>

#include "common/parallel.h"

namespace opwright_cpu {

// Estimates the cost for one thread, in vector multiplications, including the transfers of tiles
// and sums.
double WinogradWeightGradient::CostOf(int32_t filter_parts, int32_t tile_parts) const {
  constexpr int64_t kTransform = 5, kTransformOutGrads = 4, kAddUp = 2;
  const int64_t filters = (shape_.filters + filter_parts - 1) / filter_parts;
  const int64_t tiles = (shape_.tiles() + tile_parts - 1) / tile_parts;
  const int64_t of_tile =
      shape_.channels * filters + kTransform * shape_.channels + kTransformOutGrads * filters;
  const int64_t of_sums = kAddUp * shape_.channels * filters * (tile_parts > 1 ? 2 : 1);
  return static_cast<double>(tiles * of_tile + of_sums);
}

void WinogradWeightGradient::Make(const WinogradShape& shape, int32_t n_threads) {
  shape_ = shape;
  product_ = BestPanelGemm();
  constexpr int64_t kGrain = 1 << 17;  // multiplications that justify another thread
  const int64_t all = shape.tiles() * kTilePlaces * shape.channels * shape.filters;
  n_threads_ = static_cast<int32_t>(std::clamp<int64_t>(all / kGrain, 1, n_threads));
  // Limits the number of separate sums for each part of the tiles, and thus their memory.
  constexpr int64_t kMostSums = 1 << 16;
  double least = 0.0;
  for (int32_t parts = n_threads_; parts >= 1; --parts) {
    const int32_t tile_parts = n_threads_ / parts;
    if (n_threads_ % parts != 0 || parts > shape.filters / kTileLanes) continue;
    if (tile_parts > 1 && shape.channels * shape.filters > kMostSums) continue;
    const double cost = CostOf(parts, tile_parts);
    if (share_filters_ > 0 && cost >= least) continue;
    least = cost;
    shares_ = {parts, tile_parts};
    const int64_t blocks = shape.filters / kTileLanes;
    share_filters_ = (blocks + parts - 1) / parts * kTileLanes;
  }
  constexpr int64_t kCacheFloats = 160 * 1024, kFewestTiles = 64;
  const int64_t own = (shape.tiles() + shares_.tile_parts - 1) / shares_.tile_parts;
  const int64_t at_once =
      std::max(kFewestTiles, kCacheFloats / (kTilePlaces * (shape.channels + share_filters_)));
  const int64_t n_blocks = (own + at_once - 1) / at_once;
  block_ = (own + n_blocks - 1) / n_blocks;
}

int64_t WinogradWeightGradient::PartFloats() const {
  return kTilePlaces * StepOf(shape_.filters, shape_.channels);
}

// The scratch memory holds zeros for outside pixels, transformed images and transformed gradients.
int64_t WinogradWeightGradient::ScratchFloats() const {
  return std::max(shape_.channels, share_filters_) +
         kTilePlaces * (StepOf(block_, shape_.channels) + StepOf(block_, share_filters_));
}

uint64_t WinogradWeightGradient::workspace_bytes() const {
  return static_cast<uint64_t>(shares_.tile_parts * PartFloats() + n_threads_ * ScratchFloats()) *
         sizeof(float);
}

void WinogradWeightGradient::Multiply(const float* images, const float* out_grads, int64_t n,
                                      int64_t n_filters, bool is_first, float* sums) const {
  const int64_t step = StepOf(n, shape_.channels), out_grads_step = StepOf(n, n_filters);
  for (int64_t place = 0; place < kTilePlaces; ++place) {
    for (int64_t channel = 0; channel < shape_.channels; channel += product_.width) {
      const int64_t width = std::min(product_.width, shape_.channels - channel);
      product_.multiply({n_filters, width, n, out_grads + place * out_grads_step, 1, n_filters,
                         images + place * step + channel * n, width, 1,
                         sums + place * StepOf(shape_.filters, shape_.channels) + channel,
                         shape_.channels, 1.0f, is_first ? 0.0f : 1.0f, nullptr});
    }
  }
}

// The image tiles are stored in panels, like the right factor of a matrix product.
void WinogradWeightGradient::SumTiles(const float* x, const float* out_grads, Range tiles,
                                      Range filters, float* sums, float* scratch) const {
  const int64_t n_filters = filters.end - filters.begin;
  float* zeros = scratch;
  std::fill_n(zeros, std::max(shape_.channels, share_filters_), 0.0f);
  float* images = zeros + std::max(shape_.channels, share_filters_);
  float* made = images + kTilePlaces * StepOf(block_, shape_.channels);
  for (int64_t tile = tiles.begin; tile < tiles.end; tile += block_) {
    const int64_t n = std::min(block_, tiles.end - tile);
    for (int64_t i = 0; i < n; ++i) {
      TileSource source = shape_.SourceOf(x, tile + i, zeros);
      for (int64_t channel = 0; channel < shape_.channels; channel += product_.width) {
        const int64_t width = std::min(product_.width, shape_.channels - channel);
        TransformTile(source, width, images + channel * n + i * width, StepOf(n, shape_.channels));
        for (const float*& pixel : source.pixels) pixel += width;
      }
      const float* pixels[4] = {zeros, zeros, zeros, zeros};
      shape_.OverResult(tile + i, [&](int p, int64_t pixel) {
        pixels[p] = out_grads + pixel * shape_.filters + filters.begin;
      });
      TransformOutGrads(pixels, n_filters, made + i * n_filters, StepOf(n, n_filters));
    }
    Multiply(images, made, n, n_filters, tile == tiles.begin,
             sums + filters.begin * shape_.channels);
  }
}

void WinogradWeightGradient::SumPlainly(const float* x, const float* out_grads, int64_t filter,
                                        int64_t channel, float* weight_grad) const {
  std::fill_n(weight_grad, kTileLanes * kTaps, 0.0f);
  for (int64_t tile = 0; tile < shape_.tiles(); ++tile) {
    bool is_inside[kTilePlaces];
    const TileSource source = shape_.SourceOf(x, tile, x, is_inside);
    shape_.OverResult(tile, [&](int p, int64_t pixel) {
      AddTapsPlainly(source, is_inside, p, channel, out_grads[pixel * shape_.filters + filter],
                     weight_grad);
    });
  }
}

void WinogradWeightGradient::Finish(const float* x, const float* out_grads, const float* sums,
                                    int64_t filter, float* weight_grad) const {
  for (int64_t channel = 0; channel < shape_.channels; channel += kTileLanes) {
    float* to = weight_grad + (filter * shape_.channels + channel) * kTaps;
    const float* from = sums + filter * shape_.channels + channel;
    if (!FinishWeights(from, StepOf(shape_.filters, shape_.channels), shares_.tile_parts,
                       PartFloats(), to)) {
      SumPlainly(x, out_grads, filter, channel, to);
    }
  }
}

void WinogradWeightGradient::Run(const float* x, const float* out_grads, float* weight_grad,
                                 char* workspace) const {
  auto* sums = reinterpret_cast<float*>(workspace);
  float* scratch = sums + shares_.tile_parts * PartFloats();
  Parallel(n_threads_, [&](int32_t thread, int32_t) {
    const int32_t tile_part = thread / shares_.filter_parts;
    const Part filters =
        PartOf(shape_.filters, kTileLanes, thread % shares_.filter_parts, shares_.filter_parts);
    const Part tiles = PartOf(shape_.tiles(), 1, tile_part, shares_.tile_parts);
    SumTiles(x, out_grads, {tiles.begin, tiles.end}, {filters.begin, filters.end},
             sums + tile_part * PartFloats(), scratch + thread * ScratchFloats());
  });
  ParallelFor(n_threads_, shape_.filters, 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t filter = begin; filter < end; ++filter) {
      Finish(x, out_grads, sums, filter, weight_grad);
    }
  });
}

}  // namespace opwright_cpu
