// The attributes that the kernels of this room read.
#ifndef OPWRIGHT_CPU_ONEDNN_ATTRIBUTES_H_
#define OPWRIGHT_CPU_ONEDNN_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct MatmulAttrs {
  bool transpose_x = false;
  bool transpose_y = false;
  OPWRIGHT_ATTRIBUTES(transpose_x, transpose_y);
};

// Axis i of what is multiplied is axis axes[i] of what is given, of out likewise; none: the same.
struct FoldedMatmulAttrs {
  std::vector<int64_t> x_axes;
  std::vector<int64_t> y_axes;
  std::vector<int64_t> out_axes;
  OPWRIGHT_ATTRIBUTES(x_axes, y_axes, out_axes);
};

struct FcAttrs {
  std::string activation;
  bool transpose_weight = false;
  OPWRIGHT_ATTRIBUTES(activation, transpose_weight);
};

struct ConvolutionAttrs {
  std::vector<int64_t> strides;
  std::vector<int64_t> paddings;  // before and after each spatial axis
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  std::string data_format;
  std::optional<std::string> activation;  // of the fused operator only
  OPWRIGHT_ATTRIBUTES(strides, paddings, dilations, groups, data_format, activation);
};

struct FoldBatchNormAttrs {
  double epsilon = 0;
  OPWRIGHT_ATTRIBUTES(epsilon);
};

struct PoolAttrs {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;   // none: the kernel
  std::vector<int64_t> paddings;  // before and after each spatial axis
  std::vector<int64_t> dilations;
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations, data_format);
};

struct AveragePoolAttrs : PoolAttrs {
  bool count_include_pad = false;
  int64_t divisor = 0;  // 0: the number of elements
  OPWRIGHT_ATTRIBUTES(kernel, strides, paddings, dilations, data_format, count_include_pad,
                      divisor);
};

struct AdaptivePoolAttrs {
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(data_format);
};

struct RoiPoolAttrs {
  double spatial_scale = 1.0;
  OPWRIGHT_ATTRIBUTES(spatial_scale);
};

struct RoiAlignAttrs {
  double spatial_scale = 1.0;
  int64_t sampling_ratio = -1;
  bool aligned = false;
  OPWRIGHT_ATTRIBUTES(spatial_scale, sampling_ratio, aligned);
};

struct InterpolateAttrs {
  std::string mode;
  bool align_corners = false;
  std::string data_format;
  OPWRIGHT_ATTRIBUTES(mode, align_corners, data_format);
};

// Whether the channels are the last axis: NLC, NHWC, NDHWC.
inline bool IsChannelsLast(const std::string& data_format) { return data_format.back() == 'C'; }

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_ATTRIBUTES_H_
