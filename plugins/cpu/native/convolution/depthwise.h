// Depthwise convolution, whose groups have one input channel each. The kernel loops over taps,
// since a matrix product per group would have a single column.
#ifndef OPWRIGHT_CPU_CONVOLUTION_DEPTHWISE_H_
#define OPWRIGHT_CPU_CONVOLUTION_DEPTHWISE_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/image_windows.h"

namespace opwright_cpu {

inline bool IsDepthwise(const opwright::Shape& weight, const ConvolutionAttrs& attrs) {
  return weight.dim(1) == 1 && attrs.groups > 1;
}

// A depthwise convolution. Objects are immutable after Make. All shapes must be nonempty. The order
// of each sum does not depend on the number of threads.
template <typename T>
class Depthwise {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads);

  // The workspace holds the weights, reordered by tap.
  uint64_t workspace_bytes() const {
    return static_cast<uint64_t>(filters_ * at_.taps()) * sizeof(T);
  }

  // Computes out = conv2d(x, weight) + bias; bias may be NULL.
  void Forward(const T* x, const T* weight, const T* bias, T* out, char* workspace) const;
  void InputGradient(const T* out_grad, const T* weight, T* x_grad, char* workspace) const;
  // Either result may be NULL.
  void WeightGradient(const T* x, const T* out_grad, T* weight_grad, T* bias_grad,
                      char* workspace) const;

 private:
  // Calls function(first image, end of images, first channel of x, end of channels) in parallel on
  // parts of both ranges.
  template <typename Function>
  void OverBlocks(bool by_images, const Function& function) const;
  // Calls function(rows of out, rows of x, rows of tap q) for each tap of one filter in one image.
  template <typename Function>
  void OverPlane(int64_t filter, const Function& function) const;
  // Calls function(pixel of out, pixel of x, tap) for each tap of each window of an image.
  template <typename Function>
  void OverPixels(const Function& function) const;

  int64_t n_ = 0, filters_ = 0, multiplier_ = 1;
  int32_t n_threads_ = 1;
  ImageWindows at_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_DEPTHWISE_H_
