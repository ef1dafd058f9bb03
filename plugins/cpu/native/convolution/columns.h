// Convolution as a matrix product (im2col): each row contains the pixels of one window. This method
// is used for float64, which oneDNN does not support, and for gradients of images that have too few
// channels to fill oneDNN's blocks.
#ifndef OPWRIGHT_CPU_CONVOLUTION_COLUMNS_H_
#define OPWRIGHT_CPU_CONVOLUTION_COLUMNS_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "convolution/image_windows.h"
#include "matmul/gemm.h"

namespace opwright_cpu {

// Returns whether this method computes the gradient of float32 images faster than oneDNN. With few
// channels, oneDNN's blocks of 16 or 32 input channels stay partly empty. For LeNet's second
// convolution (20 channels of 12 x 12, 5 x 5 taps, 50 filters), alternating measurements gave 2.4
// ms here and 2.75 ms in oneDNN. For all other results of a convolution, oneDNN is faster.
inline bool IsFasterByColumns(const opwright::Shape& weight, const ConvolutionAttrs& attrs) {
  constexpr int64_t kBlock = 16;
  const int64_t channels = weight.dim(1);
  return attrs.data_format == "NHWC" && attrs.groups == 1 && channels > 4 &&
         channels < 4 * kBlock && channels % kBlock != 0 && weight.dim(2) * weight.dim(3) > 1;
}

// Adds bias[c] to each pixel of channel c.
template <typename T>
void AddBias(int64_t pixels, int64_t channels, const T* bias, int64_t channel_stride, T* image);

// Sums each channel of an image separately, then adds the result to `sums`, because a long sum in
// float loses precision.
template <typename T>
void SumPixels(int64_t pixels, int64_t channels, const T* image, int64_t channel_stride, T* sums);

// A convolution through im2col. The object is immutable after Make. All shapes must be nonempty.
template <typename T>
class Columns {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads);

  uint64_t workspace_bytes() const { return weight_bytes_ + thread_bytes_ * Count(n_threads_); }

  // Computes out = conv2d(x, weight) + bias; bias may be NULL.
  void Forward(const T* x, const T* weight, const T* bias, T* out, char* workspace) const;
  void InputGradient(const T* out_grad, const T* weight, T* x_grad, char* workspace) const;
  // Either result may be NULL.
  void WeightGradient(const T* x, const T* out_grad, T* weight_grad, T* bias_grad,
                      char* workspace) const;

 private:
  static uint64_t Count(int64_t n) { return static_cast<uint64_t>(n); }

  // The matrices of one thread, consecutive in memory.
  struct Scratch {
    T* columns;
    T* product;
    void* gemm;
  };
  Scratch ScratchOf(char* workspace, int32_t thread) const;

  // Packs a group's weight into the matrix [taps and channels, filters] or its transpose.
  void PackWeight(const T* weight, bool transposed, T* packed) const;
  void UnpackWeight(const T* packed, T* weight) const;  // unpacks the transposed form
  // Calls function(first element of x, first tap, number of taps) for each row of a window inside
  // the image.
  template <typename Function>
  void OverWindow(int64_t window, const Function& function) const;
  void Gather(const T* image, int64_t group, T* columns) const;
  void Scatter(const T* columns, int64_t group, T* image) const;

  MatrixView<const T> OutMatrix(const T* out, int64_t group) const {
    return {out + group * filters_ * at_.out.channel, at_.out.pixel, at_.out.channel};
  }

  int64_t n_ = 0, groups_ = 1;
  int64_t channels_ = 0, filters_ = 0;  // channels and filters per group
  int64_t windows_ = 0, depth_ = 0;
  ImageWindows at_;
  int32_t n_threads_ = 1;
  uint64_t weight_bytes_ = 0, column_bytes_ = 0, product_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_COLUMNS_H_
