#include "convolution/winograd.h"

#include <algorithm>
#include <atomic>

#include "common/parallel.h"
#include "convolution/attributes.h"

namespace opwright_cpu {
namespace {

// The size of a header before the packed weights; it records whether these are untransformed.
constexpr int64_t kHeadFloats = kLineFloats;

int64_t CeilOf(int64_t n, int64_t by) { return (n + by - 1) / by; }

}  // namespace

WinogradShape WinogradShape::Backward() const {
  WinogradShape turned = *this;
  std::swap(turned.channels, turned.filters);
  std::swap(turned.x_height, turned.out_height);
  std::swap(turned.x_width, turned.out_width);
  turned.top = 2 - top;
  turned.left = 2 - left;
  return turned;
}

TileSource WinogradShape::SourceOf(const float* x, int64_t tile, const float* zeros,
                                   bool* is_inside) const {
  const int64_t in_image = tile % (tile_rows() * tile_columns());
  const int64_t image = tile / (tile_rows() * tile_columns());
  const int64_t first_row = in_image / tile_columns() * 2 - top;
  const int64_t first_column = in_image % tile_columns() * 2 - left;
  TileSource source{};
  for (int place = 0; place < kTilePlaces; ++place) {
    const int64_t row = first_row + place / 4, column = first_column + place % 4;
    const bool is_in = row >= 0 && row < x_height && column >= 0 && column < x_width;
    source.pixels[place] =
        is_in ? x + ((image * x_height + row) * x_width + column) * channels : zeros;
    if (is_inside != nullptr) is_inside[place] = is_in;
  }
  return source;
}

bool FindWinogradShape(const opwright::Shape& x, const opwright::Shape& weight,
                       const opwright::Shape& out, const ConvolutionAttrs& attrs,
                       bool is_transformed_once, WinogradShape* shape) {
  if (x.rank() != 4 || attrs.data_format != "NHWC" || attrs.groups != 1) return false;
  for (int32_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    if (weight.dim(2 + i) != 3 || attrs.strides[axis] != 1 || attrs.dilations[axis] != 1) {
      return false;
    }
    if (std::max(attrs.paddings[2 * axis], attrs.paddings[2 * axis + 1]) > 2) return false;
  }
  WinogradShape made{x.dim(0),   x.dim(3),   weight.dim(0),     x.dim(1),         x.dim(2),
                     out.dim(1), out.dim(2), attrs.paddings[0], attrs.paddings[2]};
  if (made.channels % kTileLanes != 0 || made.filters % kTileLanes != 0) return false;
  // The cost of transforming a tile or a weight (loads, additions and stores), in multiplications
  // per tile. The cost for a weight was measured, because its taps must be gathered.
  constexpr int64_t kTransform = 5, kWeightTransform = 30;
  // The size limit of a weight that changes. In every run, the transformed copy and the gradient
  // sums take 64 bytes per weight element at the time when a training step needs the most memory.
  constexpr int64_t kMostChanging = 1 << 17;
  const int64_t products = made.channels * made.filters;
  const int64_t plain = kTaps * made.images * made.out_height * made.out_width * products;
  int64_t ours = made.tiles() * (products + kTransform * (made.channels + made.filters));
  if (!is_transformed_once) ours += kWeightTransform * products;
  if (!is_transformed_once && products > kMostChanging) return false;
  if (kTilePlaces * ours >= plain / 5 * 4) return false;
  *shape = made;
  return true;
}

void Winograd::Make(const WinogradShape& shape, bool is_backward, int32_t n_threads) {
  shape_ = shape;
  is_backward_ = is_backward;
  product_ = BestPanelGemm();
  constexpr int64_t kGrain = 1 << 17;  // multiplications that justify another thread
  const int64_t tiles = shape.tiles(), n_panels = CeilOf(shape.filters, product_.width);
  const int64_t all = tiles * kTilePlaces * shape.channels * shape.filters;
  n_threads_ = static_cast<int32_t>(std::clamp<int64_t>(all / kGrain, 1, n_threads));
  // Threads divide the tiles (each thread then reads all weights), the filters (each thread then
  // transforms all tiles), or both. The choice minimizes the time, in units of vector
  // multiplications, including the time to read bytes from beyond the L2 cache.
  constexpr double kBytesPerProduct = 4.0;
  constexpr int64_t kCacheFloats = 160 * 1024, kFewestTiles = 48;
  double least = 0.0;
  for (int32_t parts = 1; parts <= n_threads_ && parts <= n_panels; ++parts) {
    if (n_threads_ % parts != 0) continue;
    const int64_t filters = std::min(shape.filters, CeilOf(n_panels, parts) * product_.width);
    const int64_t own = CeilOf(tiles, n_threads_ / parts);
    const int64_t at_once = kCacheFloats / (kTilePlaces * (shape.channels + filters));
    const int64_t n_blocks = CeilOf(own, std::max(at_once, kFewestTiles));
    const auto work = static_cast<double>(own * (shape.channels * filters + 4 * shape.channels));
    const auto bytes = static_cast<double>(n_blocks * shape.channels * filters * 4);
    const double cost = work / kTileLanes + bytes / kBytesPerProduct;
    if (parts > 1 && cost >= least) continue;
    least = cost;
    filter_parts_ = parts;
    tile_parts_ = n_threads_ / parts;
    share_filters_ = filters;
    block_ = CeilOf(own, n_blocks);
  }
}

int64_t Winograd::PanelWidth(int64_t filter) const {
  return std::min(product_.width, shape_.filters - filter / product_.width * product_.width);
}

int64_t Winograd::WeightPlace(int64_t filter) const {
  const int64_t first = filter / product_.width * product_.width;
  return first * shape_.channels + filter - first;
}

uint64_t Winograd::packed_bytes() const {
  return static_cast<uint64_t>(kHeadFloats + kTilePlaces * WeightStep()) * sizeof(float);
}

WeightView Winograd::ViewOf(const float* weight, int64_t filter) const {
  if (!is_backward_) {
    const int64_t stride = shape_.channels * kTaps;
    return {weight + filter * stride, kTaps, stride, false};
  }
  return {weight + filter * kTaps, shape_.filters * kTaps, kTaps, true};
}

void Winograd::Pack(const float* weight, void* packed) const {
  auto* head = static_cast<float*>(packed);
  float* weights = head + kHeadFloats;
  std::atomic<bool> are_finite{true};
  const auto over_filters = [&](const auto& function) {
    ParallelFor(
        n_threads_, shape_.filters, kTileLanes, kTileLanes, [&](int64_t begin, int64_t end) {
          for (int64_t filter = begin; filter < end; filter += kTileLanes) {
            function(ViewOf(weight, filter), weights + WeightPlace(filter), PanelWidth(filter));
          }
        });
  };
  over_filters([&](const WeightView& view, float* to, int64_t row) {
    if (!TransformWeights(view, shape_.channels, to, WeightStep(), row)) are_finite = false;
  });
  head[0] = are_finite ? 0.0f : 1.0f;
  if (are_finite) return;
  over_filters([&](const WeightView& view, float* to, int64_t row) {
    CopyWeights(view, shape_.channels, to, WeightStep(), row);
  });
}

int64_t Winograd::ScratchFloats() const {
  return shape_.channels +
         kTilePlaces * (StepOf(block_, shape_.channels) + StepOf(block_, share_filters_));
}

uint64_t Winograd::workspace_bytes() const {
  return static_cast<uint64_t>(ScratchFloats() * n_threads_) * sizeof(float);
}

TileResult Winograd::ResultOf(const Tensors& tensors, int64_t tile, int64_t filter) const {
  TileResult result{};
  shape_.OverResult(tile, [&](int p, int64_t pixel) {
    const int64_t place = pixel * shape_.filters + filter;
    result.pixels[p] = tensors.out + place;
    const float* residual = tensors.epilogue.residual;
    if (residual != nullptr) result.residual[p] = residual + place;
  });
  return result;
}

void Winograd::SumPlainly(const Tensors& tensors, int64_t tile, Range filters,
                          const float* zeros) const {
  bool is_inside[kTilePlaces];
  const TileSource source = shape_.SourceOf(tensors.x, tile, zeros, is_inside);
  for (int64_t filter = filters.begin; filter < filters.end; filter += kTileLanes) {
    SumTilePlainly(source, is_inside, shape_.channels, tensors.weights + WeightPlace(filter),
                   WeightStep(), PanelWidth(filter), tensors.is_plain,
                   tensors.epilogue.From(filter), ResultOf(tensors, tile, filter));
  }
}

void Winograd::RunBlock(const Tensors& tensors, Range tiles, Range filters, float* scratch) const {
  const int64_t n = tiles.end - tiles.begin, n_filters = filters.end - filters.begin;
  const int64_t step = StepOf(n, shape_.channels), sums_step = StepOf(n, n_filters);
  float* zeros = scratch;
  float* made = zeros + shape_.channels;
  float* sums = made + kTilePlaces * step;
  for (int64_t i = 0; i < n; ++i) {
    TransformTile(shape_.SourceOf(tensors.x, tiles.begin + i, zeros), shape_.channels,
                  made + i * shape_.channels, step);
  }
  for (int64_t place = 0; place < kTilePlaces; ++place) {
    for (int64_t filter = filters.begin; filter < filters.end; filter += product_.width) {
      const int64_t width = PanelWidth(filter);
      product_.multiply({n, width, shape_.channels, made + place * step, shape_.channels, 1,
                         tensors.weights + place * WeightStep() + WeightPlace(filter), width, 1,
                         sums + place * sums_step + filter - filters.begin, n_filters, 1.0f, 0.0f,
                         nullptr});
    }
  }
  const GroupedEpilogue epilogue = tensors.epilogue.From(filters.begin);
  for (int64_t i = 0; i < n; ++i) {
    const TileResult result = ResultOf(tensors, tiles.begin + i, filters.begin);
    if (!FinishWinogradTile(sums + i * n_filters, sums_step, n_filters, epilogue, result)) {
      SumPlainly(tensors, tiles.begin + i, filters, zeros);
    }
  }
}

void Winograd::Run(const float* x, const void* packed, const GroupedEpilogue& epilogue, float* out,
                   char* workspace) const {
  const auto* head = static_cast<const float*>(packed);
  const Tensors tensors{x, head + kHeadFloats, head[0] != 0.0f, epilogue, out};
  Parallel(n_threads_, [&](int32_t thread, int32_t) {
    auto* scratch = reinterpret_cast<float*>(workspace) + thread * ScratchFloats();
    std::fill_n(scratch, shape_.channels, 0.0f);
    const Part filters =
        PartOf(shape_.filters, product_.width, thread % filter_parts_, filter_parts_);
    const Part tiles = PartOf(shape_.tiles(), 1, thread / filter_parts_, tile_parts_);
    for (int64_t tile = tiles.begin; tile < tiles.end; tile += block_) {
      const Range block{tile, std::min(tile + block_, tiles.end)};
      if (!tensors.is_plain) {
        RunBlock(tensors, block, {filters.begin, filters.end}, scratch);
        continue;
      }
      for (int64_t i = block.begin; i < block.end; ++i) {
        SumPlainly(tensors, i, {filters.begin, filters.end}, scratch);
      }
    }
  });
}

}  // namespace opwright_cpu
