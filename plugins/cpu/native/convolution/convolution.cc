#include "convolution/convolution.h"

#include <algorithm>

#include "common/attributes.h"
#include "convolution/attributes.h"

namespace opwright_cpu {

using dnnl::memory;

namespace {

// Returns the strides of a contiguous array with these dimensions.
memory::dims RowMajor(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

}  // namespace

void ConvolutionShape::Make(const opwright::Shape& x, const opwright::Shape& weight,
                            const opwright::Shape& out, const ConvolutionAttrs& attrs,
                            memory::data_type dtype, bool is_transposed) {
  is_channels_last_ = IsChannelsLast(attrs.data_format);
  is_transposed_ = is_transposed;
  const int32_t channel_axis = is_channels_last_ ? out.rank() - 1 : 1;
  channels_ = out.dim(channel_axis);
  inner_ = 1;
  for (int32_t i = channel_axis + 1; i < out.rank(); ++i) inner_ *= out.dim(i);
  is_empty_ = x.numel() == 0 || weight.numel() == 0 || out.numel() == 0;
  if (is_empty_) return;
  dtype_ = dtype;
  x_ = Images(x);
  out_ = Images(out);
  weight_ = Weight(weight, attrs.groups, is_transposed);
  bias_ = memory::desc({channels_}, dtype, memory::format_tag::a);
  memory::dims one_each(static_cast<size_t>(out.rank()), 1);
  one_each[1] = channels_;
  per_channel_ = memory::desc(one_each, memory::data_type::f32, RowMajor(one_each));
  strides_ = attrs.strides;
  dilations_ = attrs.dilations;
  padding_begin_ = padding_end_ = attrs.strides;
  for (size_t i = 0; i < strides_.size(); ++i) {
    --dilations_[i];
    padding_begin_[i] = attrs.paddings[2 * i];
    padding_end_[i] = attrs.paddings[2 * i + 1];
    if (is_transposed) {
      // Output padding reduces the number of elements that are cropped at the end.
      const int64_t reach = (weight.dim(static_cast<int32_t>(2 + i)) - 1) * attrs.dilations[i] + 1;
      const int64_t whole = (x_.get_dims()[2 + i] - 1) * strides_[i] + reach;
      padding_end_[i] = whole - out_.get_dims()[2 + i] - padding_begin_[i];
    }
  }
  const opwright::Shape& windows = is_transposed ? x : out;
  const int64_t filters = weight.dim(0);
  multiplications_ = windows.numel() / filters * weight.numel();
}

memory::desc ConvolutionShape::Weight(const opwright::Shape& shape, int64_t groups,
                                      bool is_transposed) const {
  memory::dims dims = shape.dims();
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  memory::dims strides = RowMajor(dims);
  if (is_transposed) {
    const size_t first = groups > 1 ? 1 : 0;
    std::swap(dims[first], dims[first + 1]);
    std::swap(strides[first], strides[first + 1]);
  }
  return memory::desc(dims, dtype_, strides);
}

memory::desc ConvolutionShape::Images(const opwright::Shape& shape) const {
  memory::dims dims = shape.dims();
  if (is_channels_last_) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return Images(dims);
}

memory::desc ConvolutionShape::Images(const memory::dims& dims) const {
  if (!is_channels_last_) return memory::desc(dims, dtype_, RowMajor(dims));
  memory::dims stored = dims;
  std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
  memory::dims strides = RowMajor(stored);
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return memory::desc(dims, dtype_, strides);
}

int64_t ConvolutionShape::windows() const {
  const memory::dims out = out_.get_dims();
  int64_t count = out[0];
  for (size_t i = 2; i < out.size(); ++i) count *= out[i];
  return count;
}

void ConvolutionShape::SetImages(const memory::dims& x, const memory::dims& out) {
  const int64_t before = windows();
  x_ = Images(x);
  out_ = Images(out);
  multiplications_ = multiplications_ / before * windows();
}

ConvolutionShape ConvolutionShape::OfImages(int64_t n) const {
  ConvolutionShape part = *this;
  memory::dims x = x_.get_dims(), out = out_.get_dims();
  x[0] = out[0] = n;
  part.SetImages(x, out);
  return part;
}

ConvolutionShape ConvolutionShape::AsColumn() const {
  const memory::dims weight = weight_.get_dims();
  memory::dims x = x_.get_dims(), out = out_.get_dims();
  for (size_t i = 0; i < strides_.size(); ++i) {
    const bool is_one = weight[weight.size() - 1 - i] == 1 && strides_[i] == 1;
    if (!is_one || x[2 + i] != out[2 + i] || !is_channels_last_) return *this;
  }
  ConvolutionShape column = *this;
  for (size_t i = 3; i < x.size(); ++i) {
    x[2] *= x[i];
    x[i] = 1;
  }
  for (size_t i = 2; i < out.size(); ++i) out[i] = x[i];
  column.SetImages(x, out);
  return column;
}

int64_t ConvolutionShape::reach() const {
  const memory::dims weight = weight_.get_dims();
  return (weight[weight.size() - strides_.size()] - 1) * (dilations_[0] + 1) + 1;
}

bool ConvolutionShape::has_parts() const {
  if (is_transposed_) {
    return is_channels_last_ && reach() >= strides_[0] && padding_end_[0] >= 0;
  }
  const int64_t padding = std::max(padding_begin_[0], padding_end_[0]);
  return is_channels_last_ && padding < reach();
}

ConvolutionShape ConvolutionShape::OfRows(int64_t begin, int64_t end, int64_t* first) const {
  ConvolutionShape part = *this;
  memory::dims x = x_.get_dims(), out = out_.get_dims();
  if (is_transposed_) {
    // Row i of x is added to `reach` rows of the output, starting at i * stride - padding.
    const int64_t stride = strides_[0], shift = padding_begin_[0];
    *first = (std::max<int64_t>(begin + shift - reach() + 1, 0) + stride - 1) / stride;
    const int64_t last = std::min((end - 1 + shift) / stride, x[2] - 1);
    part.padding_begin_[0] = begin + shift - *first * stride;
    part.padding_end_[0] = last * stride + reach() - shift - end;
    x[2] = last + 1 - *first;
  } else {
    const int64_t from = begin * strides_[0] - padding_begin_[0];
    const int64_t to = (end - 1) * strides_[0] - padding_begin_[0] + reach();
    part.padding_begin_[0] = std::max<int64_t>(-from, 0);
    part.padding_end_[0] = std::max<int64_t>(to - x[2], 0);
    *first = std::max<int64_t>(from, 0);
    x[2] = std::min(to, x[2]) - *first;
  }
  out[2] = end - begin;
  x[0] = out[0] = 1;
  part.SetImages(x, out);
  return part;
}

memory::desc ConvolutionShape::AsPreferred(const memory::desc& images) const {
  if (is_channels_last_) return images;
  return memory::desc(images.get_dims(), dtype_, memory::format_tag::any);
}

memory::desc ConvolutionShape::AnyWeight() const {
  return memory::desc(weight_.get_dims(), dtype_, memory::format_tag::any);
}

memory::desc ConvolutionShape::AnyWeightSums() const {
  return memory::desc(weight_.get_dims(), memory::data_type::f32, memory::format_tag::any);
}

memory::desc ConvolutionShape::BiasSums() const {
  return memory::desc({channels_}, memory::data_type::f32, memory::format_tag::a);
}

}  // namespace opwright_cpu
