// The operators of opwright-std that this room has kernels for, with the attributes they read.
#ifndef OPWRIGHT_CPU_ONEDNN_OPS_H_
#define OPWRIGHT_CPU_ONEDNN_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

struct MatmulAttrs {
  bool transpose_x = false;
  bool transpose_y = false;
};

struct MatmulOp : opwright::Op<MatmulAttrs> {
  static void Make(opwright::OpMaker<MatmulAttrs>& maker) {
    maker.AddAttr(&MatmulAttrs::transpose_x, "transpose_x", "whether x is transposed first");
    maker.AddAttr(&MatmulAttrs::transpose_y, "transpose_y", "whether y is transposed first");
  }
};

struct FcAttrs {
  std::string activation;
};

struct FcOp : opwright::Op<FcAttrs> {
  static void Make(opwright::OpMaker<FcAttrs>& maker) {
    maker.AddAttr(&FcAttrs::activation, "activation", "operator behind the sum");
  }
};

struct Conv2dAttrs {
  std::vector<int64_t> strides;
  std::vector<int64_t> paddings;  // top, bottom, left, right
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  std::string data_format;
  std::string activation;  // of the fused operator only
};

inline void AddConv2dAttrs(opwright::OpMaker<Conv2dAttrs>& maker) {
  maker.AddAttr(&Conv2dAttrs::strides, "strides", "distance of two windows: height, width");
  maker.AddAttr(&Conv2dAttrs::paddings, "paddings", "zeros around x: top, bottom, left, right");
  maker.AddAttr(&Conv2dAttrs::dilations, "dilations", "distance of two elements of a window");
  maker.AddAttr(&Conv2dAttrs::groups, "groups", "parts that the channels are split into");
  maker.AddAttr(&Conv2dAttrs::data_format, "data_format", "order of the axes of x and out");
}

struct Conv2dOp : opwright::Op<Conv2dAttrs> {
  static void Make(opwright::OpMaker<Conv2dAttrs>& maker) { AddConv2dAttrs(maker); }
};

struct FusedConv2dOp : opwright::Op<Conv2dAttrs> {
  static void Make(opwright::OpMaker<Conv2dAttrs>& maker) {
    AddConv2dAttrs(maker);
    maker.AddAttr(&Conv2dAttrs::activation, "activation", "operator behind the sum");
  }
};

struct FoldBatchNormAttrs {
  double epsilon = 0;
};

struct FoldBatchNormOp : opwright::Op<FoldBatchNormAttrs> {
  static void Make(opwright::OpMaker<FoldBatchNormAttrs>& maker) {
    maker.AddAttr(&FoldBatchNormAttrs::epsilon, "epsilon", "added to the variance");
  }
};

struct PoolAttrs {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;   // none: the kernel
  std::vector<int64_t> paddings;  // top, bottom, left, right
  std::string data_format;
};

struct AveragePoolAttrs : PoolAttrs {
  bool count_include_pad = false;
};

struct AdaptivePoolAttrs {
  std::string data_format;
};

template <typename Attrs>
void AddPoolAttrs(opwright::OpMaker<Attrs>& maker) {
  // A member of the base is one of the derived struct, but its pointer's type does not say so.
  using Ints = std::vector<int64_t> Attrs::*;
  using Text = std::string Attrs::*;
  maker.AddAttr(static_cast<Ints>(&PoolAttrs::kernel), "kernel", "size of a window");
  maker.AddAttr(static_cast<Ints>(&PoolAttrs::strides), "strides", "distance of two windows");
  maker.AddAttr(static_cast<Ints>(&PoolAttrs::paddings), "paddings", "top, bottom, left, right");
  maker.AddAttr(static_cast<Text>(&PoolAttrs::data_format), "data_format", "order of the axes");
}

struct MaxPoolOp : opwright::Op<PoolAttrs> {
  static void Make(opwright::OpMaker<PoolAttrs>& maker) { AddPoolAttrs(maker); }
};

struct AveragePoolOp : opwright::Op<AveragePoolAttrs> {
  static void Make(opwright::OpMaker<AveragePoolAttrs>& maker) {
    AddPoolAttrs(maker);
    maker.AddAttr(&AveragePoolAttrs::count_include_pad, "count_include_pad",
                  "whether a sum is divided by the padding in it too");
  }
};

struct AdaptivePoolOp : opwright::Op<AdaptivePoolAttrs> {
  static void Make(opwright::OpMaker<AdaptivePoolAttrs>& maker) {
    maker.AddAttr(&AdaptivePoolAttrs::data_format, "data_format", "order of the axes");
  }
};

}  // namespace opwright_cpu

OPWRIGHT_DECLARE_OP(conv2d, "conv2d", opwright_cpu::Conv2dOp);
OPWRIGHT_DECLARE_OP(conv2d_fused, "cpu.conv2d_fused", opwright_cpu::FusedConv2dOp);
OPWRIGHT_DECLARE_OP(conv2d_pool_grad, "std.conv2d_pool_grad", opwright_cpu::Conv2dOp);
OPWRIGHT_DECLARE_OP(fold_batch_norm, "cpu.fold_batch_norm", opwright_cpu::FoldBatchNormOp);
OPWRIGHT_DECLARE_OP(max_pool2d, "max_pool2d", opwright_cpu::MaxPoolOp);
OPWRIGHT_DECLARE_OP(avg_pool2d, "avg_pool2d", opwright_cpu::AveragePoolOp);
OPWRIGHT_DECLARE_OP(adaptive_avg_pool2d, "adaptive_avg_pool2d", opwright_cpu::AdaptivePoolOp);
OPWRIGHT_DECLARE_OP(fc, "fc", opwright_cpu::FcOp);
OPWRIGHT_DECLARE_OP(matmul, "matmul", opwright_cpu::MatmulOp);

#endif  // OPWRIGHT_CPU_ONEDNN_OPS_H_
