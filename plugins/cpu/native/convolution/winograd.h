// Convolution of 3 x 3 taps through the Winograd transform F(2 x 2, 3 x 3), which needs 16
// multiplications for four pixels instead of 36 (Lavin and Gray, arXiv:1509.09308).
#ifndef OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_
#define OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/grouped_rows.h"
#include "convolution/winograd_tiles.h"
#include "gemm/gemm.h"

namespace opwright_cpu {

// The sizes of a convolution of channels-last images with 3 x 3 taps.
struct WinogradShape {
  int64_t images = 0, channels = 0, filters = 0;
  int64_t x_height = 0, x_width = 0, out_height = 0, out_width = 0;
  int64_t top = 0, left = 0;  // padding before x

  int64_t tile_rows() const { return (out_height + 1) / 2; }
  int64_t tile_columns() const { return (out_width + 1) / 2; }
  int64_t tiles() const { return images * tile_rows() * tile_columns(); }
  // Returns pointers to the pixels of x that tile `tile` reads. Pixels outside of x point to
  // `zeros`. Their elements of `is_inside` become false, unless `is_inside` is NULL.
  TileSource SourceOf(const float* x, int64_t tile, const float* zeros,
                      bool* is_inside = nullptr) const;
  // Calls function(p, pixel) for each of the four pixels of a tile that is inside the result.
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
  // Returns the shape of the input gradient, which convolves output gradients with the taps in
  // reverse order.
  WinogradShape Backward() const;
};

// Padding between the matrices [tiles, channels], one for each position of a tile. Without this
// cache line, matrices at power-of-two distances would map to the same cache sets.
constexpr int64_t kLineFloats = 16;
inline int64_t StepOf(int64_t tiles, int64_t channels) { return tiles * channels + kLineFloats; }

// Returns whether this method is faster for float32 images and, if it is, sets `shape`. Strides,
// dilations and groups must be 1, with enough channels for products to dominate the work. A weight
// that changes is transformed in each run.
bool FindWinogradShape(const opwright::Shape& x, const opwright::Shape& weight,
                       const opwright::Shape& out, const ConvolutionAttrs& attrs,
                       bool is_transformed_once, WinogradShape* shape);

// Computes the convolution or its image gradient. Objects are immutable after Make. Each result is
// summed by one thread, in an order that does not depend on the number of threads. Tiles with
// non-finite sums are recomputed by direct sums so that infinities and NaN reach only the pixels
// whose windows contain them.
class Winograd {
 public:
  // If `is_backward` is true, `shape` is the shape of the gradient.
  void Make(const WinogradShape& shape, bool is_backward, int32_t n_threads);
  bool empty() const { return shape_.images == 0; }

  // Returns the size in bytes of the transformed weight that Run reads.
  uint64_t packed_bytes() const;
  void Pack(const float* weight, void* packed) const;

  uint64_t workspace_bytes() const;
  void Run(const float* x, const void* packed, const GroupedEpilogue& epilogue, float* out,
           char* workspace) const;

 private:
  struct Tensors {
    const float* x;
    const float* weights;
    bool is_plain;  // the weights are untransformed copies
    GroupedEpilogue epilogue;
    float* out;
  };
  // Returns the position of the packed weights of 16 filters starting at `filter`.
  int64_t WeightPlace(int64_t filter) const;
  int64_t PanelWidth(int64_t filter) const;
  int64_t WeightStep() const { return shape_.channels * shape_.filters; }
  WeightView ViewOf(const float* weight, int64_t filter) const;

  TileResult ResultOf(const Tensors& tensors, int64_t tile, int64_t filter) const;
  void RunBlock(const Tensors& tensors, Range tiles, Range filters, float* scratch) const;
  void SumPlainly(const Tensors& tensors, int64_t tile, Range filters, const float* zeros) const;
  int64_t ScratchFloats() const;  // scratch size of one thread

  WinogradShape shape_;
  bool is_backward_ = false;
  PanelGemm product_{};
  int32_t n_threads_ = 1;
  int32_t filter_parts_ = 1, tile_parts_ = 1;
  int64_t share_filters_ = 0, block_ = 0;  // maximum filters and tiles that are loaded at once
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_H_
