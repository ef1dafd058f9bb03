// Describes a convolution in the terms of oneDNN.
#ifndef OPWRIGHT_CPU_CONVOLUTION_CONVOLUTION_H_
#define OPWRIGHT_CPU_CONVOLUTION_CONVOLUTION_H_

#include <cstdint>

#include <opwright/sdk.hpp>

#include "convolution/attributes.h"
#include "onednn/dnnl.h"

namespace opwright_cpu {

// The sizes of a convolution and the layouts of its tensors between steps. Images are laid out as
// in data_format; weights are [out_channels, in_channels / groups, *kernel], or [in_channels,
// out_channels / groups, *kernel] if the convolution is transposed. oneDNN lists channels first in
// both formats.
class ConvolutionShape {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, dnnl::memory::data_type dtype,
            bool is_transposed = false);

  // Returns the shape for a batch of `n` images.
  ConvolutionShape OfImages(int64_t n) const;
  // If windows are adjacent and have one element, returns a shape in which the pixels of each image
  // form one column, so threads can split it at any pixel. Otherwise, returns the shape unchanged.
  ConvolutionShape AsColumn() const;

  // Returns whether rows of an output can be computed separately. Channels must be last, and every
  // window must read a row of x or, if transposed, every row of the output must belong to a window.
  bool has_parts() const;
  // Returns the length of the output's first spatial axis.
  int64_t rows() const { return out_.get_dims()[2]; }
  // Returns the shape for the rows [begin, end) of one image's output; sets `first` to the first
  // row of x that they read.
  ConvolutionShape OfRows(int64_t begin, int64_t end, int64_t* first) const;

  // Returns whether all sums are empty. The output is then the bias, and the members below are not
  // set.
  bool is_empty() const { return is_empty_; }
  int64_t channels() const { return channels_; }  // output channels
  // Returns the number of adjacent elements per channel in images [..., channels, inner].
  int64_t inner() const { return inner_; }

  const dnnl::memory::desc& x() const { return x_; }
  const dnnl::memory::desc& weight() const { return weight_; }
  const dnnl::memory::desc& bias() const { return bias_; }
  const dnnl::memory::desc& out() const { return out_; }
  // Returns the descriptor of a vector with one value per output channel, broadcast over an image.
  const dnnl::memory::desc& per_channel() const { return per_channel_; }

  // Returns the layout of images for the primitive. Channels-last images keep their layout, which
  // is fast; otherwise, oneDNN chooses a layout, and the pipeline converts images to it.
  dnnl::memory::desc AsPreferred(const dnnl::memory::desc& images) const;
  dnnl::memory::desc AnyWeight() const;

  // Returns the descriptor of the weight gradient sums, which are float for every dtype.
  dnnl::memory::desc AnyWeightSums() const;
  dnnl::memory::desc BiasSums() const;
  uint64_t bias_sum_bytes() const { return static_cast<uint64_t>(channels_) * sizeof(float); }

  const dnnl::memory::dims& strides() const { return strides_; }
  const dnnl::memory::dims& dilations() const { return dilations_; }
  const dnnl::memory::dims& padding_begin() const { return padding_begin_; }
  const dnnl::memory::dims& padding_end() const { return padding_end_; }

  int64_t images() const { return x_.get_dims()[0]; }
  // Returns the number of windows in all images.
  int64_t windows() const;
  // Returns the size of one image in bytes.
  int64_t x_bytes() const { return static_cast<int64_t>(x_.get_size()) / images(); }
  int64_t out_bytes() const { return static_cast<int64_t>(out_.get_size()) / images(); }
  // Returns the size in bytes of one row of a channels-last image.
  int64_t x_row_bytes() const { return x_bytes() / x_.get_dims()[2]; }
  int64_t out_row_bytes() const { return out_bytes() / rows(); }

  int64_t multiplications() const { return multiplications_; }

 private:
  dnnl::memory::desc Images(const opwright::Shape& shape) const;
  dnnl::memory::desc Images(const dnnl::memory::dims& dims) const;
  // Returns the number of elements of x that a window spans along the first spatial axis.
  int64_t reach() const;
  void SetImages(const dnnl::memory::dims& x, const dnnl::memory::dims& out);
  dnnl::memory::desc Weight(const opwright::Shape& shape, int64_t groups, bool is_transposed) const;

  bool is_empty_ = false;
  int64_t channels_ = 0;
  int64_t inner_ = 1;
  bool is_channels_last_ = false;
  bool is_transposed_ = false;
  dnnl::memory::data_type dtype_ = dnnl::memory::data_type::f32;
  dnnl::memory::desc x_, weight_, bias_, out_, per_channel_;
  dnnl::memory::dims strides_, dilations_, padding_begin_, padding_end_;
  int64_t multiplications_ = 0;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_CONVOLUTION_H_
