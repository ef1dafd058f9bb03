// Float32 convolutions that our own loops or matrix products compute faster than oneDNN does.
#ifndef OPWRIGHT_CPU_CONVOLUTION_OWN_CONVOLUTION_H_
#define OPWRIGHT_CPU_CONVOLUTION_OWN_CONVOLUTION_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/grouped.h"
#include "convolution/winograd.h"
#include "convolution/winograd_gradient.h"
#include "matmul/panel_product.h"
#include "matmul/product.h"

namespace opwright_cpu {

// The pixels that one-pixel windows read from channels-last images: all pixels or a strided subset.
class PointwisePixels {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads);
  bool are_all() const { return are_all_; }
  uint64_t workspace_bytes() const;                   // 0 if all pixels are read
  void Gather(const float* x, float* pixels) const;   // copies to [pixels, channels]
  void Scatter(const float* pixels, float* x) const;  // writes zeros to all other pixels

 private:
  int64_t RowOf(int64_t row) const;

  ImageWindows at_;
  int64_t images_ = 0;
  int32_t n_threads_ = 1;
  bool are_all_ = true;
};

struct OwnConvolutionRequest {
  opwright::Shape x, weight, out;
  const ConvolutionAttrs* attrs = nullptr;
  int32_t n_threads = 1;
  // The following fields are used by OwnForward only.
  const Eltwise* activation = nullptr;
  bool with_bias = false;
  bool is_fused = false;  // whether more than a bias follows the sums
  bool may_pack = false;
};

// Computes a convolution in groups of few channels, a convolution with 3 x 3 taps by the Winograd
// transform, or a pointwise convolution of channels-last images as a matrix product. The product is
// used if there are few pixels, because threads then divide the weight instead of the pixels, and
// if the weight changes, because oneDNN's convolutions would copy it.
class OwnForward {
 public:
  // Leaves the object empty if oneDNN's convolution is faster.
  void Make(const OwnConvolutionRequest& request);

  bool empty() const {
    return !is_grouped_ && winograd_.empty() && panels_.empty() && product_.empty();
  }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t workspace_bytes() const;
  void Pack(const float* weight, void* packed) const;

  struct Bound {
    ProductExecution product;
  };
  void Bind(Bound& bound) const { bound.product.Bind(product_); }
  void Run(Bound& bound, const float* x, const float* weight, GroupedEpilogue epilogue, float* out,
           char* workspace) const;

 private:
  bool MakePanels(const OwnConvolutionRequest& request);
  void RunPanels(const float* pixels, const void* packed, const GroupedEpilogue& epilogue,
                 float* out) const;

  bool is_grouped_ = false;
  GroupedConvolution grouped_;
  GroupedEpilogue::Activation activation_ = GroupedEpilogue::Activation::kNone;
  Winograd winograd_;
  uint64_t packed_bytes_ = 0;
  PointwisePixels pixels_;
  PanelProduct panels_;
  int64_t filters_ = 0;
  OwnActivation activate_ = nullptr;  // applied after each panel
  Product product_;
};

// Computes the gradients of the convolutions that OwnForward supports.
class OwnGradients {
 public:
  // Leaves the object empty if oneDNN's gradients are faster.
  void Make(const OwnConvolutionRequest& request);

  bool empty() const { return !is_grouped_ && winograd_.empty() && of_input_.empty(); }
  uint64_t workspace_bytes() const;

  struct Bound {
    ProductExecution of_input, of_weight;
  };
  void Bind(Bound& bound) const {
    bound.of_input.Bind(of_input_);
    bound.of_weight.Bind(of_weight_);
  }
  struct Results {  // each pointer may be NULL
    float* x = nullptr;
    float* weight = nullptr;
    float* bias = nullptr;
  };
  void Run(Bound& bound, const float* x, const float* weight, const float* out_grads,
           const Results& results, char* workspace) const;

 private:
  void RunWinograd(const float* x, const float* weight, const float* out_grads,
                   const Results& results, char* workspace) const;
  void SumOutGrads(const float* out_grads, float* bias_grad) const;

  bool is_grouped_ = false;
  GroupedConvolution grouped_;
  Winograd winograd_;
  WinogradWeightGradient winograd_weight_;
  PointwisePixels pixels_;
  Product of_input_, of_weight_;
  int64_t images_ = 0, n_pixels_ = 0, channels_ = 0;  // n_pixels_ counts the pixels of one image
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_OWN_CONVOLUTION_H_
