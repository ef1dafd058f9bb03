// Convolution of 3 x 3 taps through Winograd's transform F(2 x 2, 3 x 3): 16 multiplications for
// four pixels, where plain sums have 36 (Lavin and Gray, arXiv:1509.09308).
#ifndef OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_
#define OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/grouped_rows.h"
#include "convolution/winograd_tiles.h"
#include "gemm/gemm.h"

namespace opwright_cpu {

// The convolution: images, channels last, of 3 x 3 taps.
struct WinogradShape {
  int64_t images = 0, channels = 0, filters = 0;
  int64_t x_height = 0, x_width = 0, out_height = 0, out_width = 0;
  int64_t top = 0, left = 0;  // zeros before x

  int64_t tile_rows() const { return (out_height + 1) / 2; }
  int64_t tile_columns() const { return (out_width + 1) / 2; }
  int64_t tiles() const { return images * tile_rows() * tile_columns(); }
  // The pixels of x that tile `tile` reads; for those outside of x `zeros`, and false in
  // `is_inside` if requested.
  TileSource SourceOf(const float* x, int64_t tile, const float* zeros,
                      bool* is_inside = nullptr) const;
  // Calls function(p, pixel) for each pixel p of the four of a tile that the result has.
  template <typename Function>
  void OverResult(int64_t tile, const Function& function) const {
    const int64_t in_image = tile % (tile_rows() * tile_columns());
    const int64_t image = tile / (tile_rows() * tile_columns());
    for (int p = 0; p < 4; ++p) {
      const int64_t row = in_image / tile_columns() * 2 + p / 2;
      const int64_t column = in_image % tile_columns() * 2 + p % 2;
      if (row >= out_height || column >= out_width) continue;
      function(p, (image * out_height + row) * out_width + column);
    }
  }
  // The weight of the input's gradient: output gradients are convolved with taps in reverse order.
  WinogradShape Backward() const;
};

// Matrices [tiles, channels], one for each place of a tile, are at this distance: a line more than
// their size, because at distances of powers of two all of them would be in the same sets of a
// cache.
constexpr int64_t kLineFloats = 16;
inline int64_t StepOf(int64_t tiles, int64_t channels) { return tiles * channels + kLineFloats; }

// Whether float32 images are convolved faster in this way: without strides, dilations and groups,
// and with enough channels for products to be most of the work. Sets `shape` then. A weight that
// changes is transformed in each run.
bool FindWinogradShape(const opwright::Shape& x, const opwright::Shape& weight,
                       const opwright::Shape& out, const ConvolutionAttrs& attrs,
                       bool is_transformed_once, WinogradShape* shape);

// The convolution, or the gradient of its images. Immutable after Make. Each number is the sum of
// one thread in one order, for any number of threads. Tiles whose sums are not finite are computed
// by plain sums: infinities and NaN reach only the pixels whose windows contain them.
class Winograd {
 public:
  // With `is_backward`, `shape` is the gradient's.
  void Make(const WinogradShape& shape, bool is_backward, int32_t n_threads);
  bool empty() const { return shape_.images == 0; }

  // The transformed weight, as Run reads it.
  uint64_t packed_bytes() const;
  void Pack(const float* weight, void* packed) const;

  uint64_t workspace_bytes() const;
  void Run(const float* x, const void* packed, const GroupedEpilogue& epilogue, float* out,
           char* workspace) const;

 private:
  struct Tensors {
    const float* x;
    const float* weights;
    bool is_plain;  // the weights are copied ones
    GroupedEpilogue epilogue;
    float* out;
  };
  // The place of a weight of 16 filters from `filter` on, and of one more channel.
  int64_t WeightPlace(int64_t filter) const;
  int64_t PanelWidth(int64_t filter) const;
  int64_t WeightStep() const { return shape_.channels * shape_.filters; }
  WeightView ViewOf(const float* weight, int64_t filter) const;

  TileResult ResultOf(const Tensors& tensors, int64_t tile, int64_t filter) const;
  void RunBlock(const Tensors& tensors, Range tiles, Range filters, float* scratch) const;
  void SumPlainly(const Tensors& tensors, int64_t tile, Range filters, const float* zeros) const;
  int64_t ScratchFloats() const;  // of one thread

  WinogradShape shape_;
  bool is_backward_ = false;
  PanelGemm product_{};
  int32_t n_threads_ = 1;
  int32_t filter_parts_ = 1, tile_parts_ = 1;
  int64_t share_filters_ = 0, block_ = 0;  // most filters and tiles that are loaded at once
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_
