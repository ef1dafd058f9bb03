// Computes the weight gradient of a convolution of 3 x 3 taps through the Winograd transform.
#ifndef OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_GRADIENT_H_
#define OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_GRADIENT_H_

#include <cstdint>

#include "convolution/winograd.h"
#include "gemm/gemm.h"

namespace opwright_cpu {

// The 16 products of transformed images and output gradients are summed over all tiles, and the
// sums are transformed back. Non-finite sums are recomputed directly. Immutable after Make.
class WinogradWeightGradient {
 public:
  void Make(const WinogradShape& shape, int32_t n_threads);

  uint64_t workspace_bytes() const;
  void Run(const float* x, const float* out_grads, float* weight_grad, char* workspace) const;

 private:
  struct Shares {  // each thread processes all channels, some filters and some tiles
    int32_t filter_parts = 1, tile_parts = 1;
  };
  double CostOf(int32_t filter_parts, int32_t tile_parts) const;
  int64_t PartFloats() const;     // size of the sums of all filters over some tiles
  int64_t ScratchFloats() const;  // scratch size of one thread
  void SumTiles(const float* x, const float* out_grads, Range tiles, Range filters, float* sums,
                float* scratch) const;
  void Multiply(const float* images, const float* out_grads, int64_t n, int64_t n_filters,
                bool is_first, float* sums) const;
  void Finish(const float* x, const float* out_grads, const float* sums, int64_t filter,
              float* weight_grad) const;
  void SumPlainly(const float* x, const float* out_grads, int64_t filter, int64_t channel,
                  float* weight_grad) const;

  WinogradShape shape_;
  PanelGemm product_{};
  int32_t n_threads_ = 1;
  Shares shares_;
  int64_t share_filters_ = 0, block_ = 0;  // maximum filters and tiles that are loaded at once
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_WINOGRAD_GRADIENT_H_
