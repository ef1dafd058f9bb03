#include "onednn/convolution.h"

namespace opwright_cpu {

using dnnl::memory;

void ConvolutionShape::Make(const opwright::Shape& x, const opwright::Shape& weight,
                            const opwright::Shape& out, const Conv2dAttrs& attrs,
                            memory::data_type dtype) {
  is_nhwc_ = attrs.data_format == "NHWC";
  channels_ = weight.dim(0);
  inner_ = is_nhwc_ ? 1 : out.dim(2) * out.dim(3);
  is_empty_ = x.numel() == 0 || weight.numel() == 0 || out.numel() == 0;
  if (is_empty_) return;
  dtype_ = dtype;
  x_ = Images(x);
  out_ = Images(out);
  memory::dims kernel = weight.dims();
  memory::format_tag tag = memory::format_tag::oihw;
  if (attrs.groups > 1) {
    kernel = {attrs.groups, channels_ / attrs.groups, weight.dim(1), weight.dim(2), weight.dim(3)};
    tag = memory::format_tag::goihw;
  }
  weight_ = memory::desc(kernel, dtype, tag);
  bias_ = memory::desc({channels_}, dtype, memory::format_tag::a);
  per_channel_ =
      memory::desc({1, channels_, 1, 1}, memory::data_type::f32, memory::format_tag::abcd);
  strides_ = attrs.strides;
  dilations_ = {attrs.dilations[0] - 1, attrs.dilations[1] - 1};
  padding_begin_ = {attrs.paddings[0], attrs.paddings[2]};
  padding_end_ = {attrs.paddings[1], attrs.paddings[3]};
  multiplications_ = out.numel() / channels_ * weight.numel();
}

memory::desc ConvolutionShape::Images(const opwright::Shape& shape) const {
  if (!is_nhwc_) return Images(shape.dims());
  return Images(memory::dims{shape.dim(0), shape.dim(3), shape.dim(1), shape.dim(2)});
}

memory::desc ConvolutionShape::Images(const memory::dims& dims) const {
  return memory::desc(dims, dtype_, is_nhwc_ ? memory::format_tag::nhwc : memory::format_tag::nchw);
}

ConvolutionShape ConvolutionShape::OfImages(int64_t n) const {
  ConvolutionShape part = *this;
  memory::dims x = x_.get_dims(), out = out_.get_dims();
  part.multiplications_ = multiplications_ / x[0] * n;
  x[0] = out[0] = n;
  part.x_ = Images(x);
  part.out_ = Images(out);
  return part;
}

memory::desc ConvolutionShape::AsPreferred(const memory::desc& images) const {
  if (is_nhwc_) return images;
  return memory::desc(images.get_dims(), dtype_, memory::format_tag::any);
}

memory::desc ConvolutionShape::AnyWeight() const {
  return memory::desc(weight_.get_dims(), dtype_, memory::format_tag::any);
}

}  // namespace opwright_cpu
