// The oneDNN primitives that compute the gradients of a convolution.
#ifndef OPWRIGHT_CPU_CONVOLUTION_GRADIENT_STEPS_H_
#define OPWRIGHT_CPU_CONVOLUTION_GRADIENT_STEPS_H_

#include <vector>

#include <opwright/sdk.hpp>

#include "convolution/convolution.h"
#include "onednn/dnnl.h"
#include "onednn/pipeline.h"

namespace opwright_cpu {

// The indices of the tensors that pipelines read and write. Each part has its own sums.
enum GradOperand : Operand {
  kXOperand,
  kWeightOperand,
  kOutGradOperand,
  kXGradOperand,
  kWeightSums,
  kBiasSums,
  kGradOperands
};

// Returns the forward descriptor that oneDNN needs as a hint for gradients, or an empty one if
// oneDNN does not support the convolution.
inline dnnl::convolution_forward::primitive_desc ForwardOf(const ConvolutionShape& shape) {
  return {CpuEngine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          shape.AsPreferred(shape.x()),
          shape.AnyWeight(),
          shape.AsPreferred(shape.out()),
          shape.strides(),
          shape.dilations(),
          shape.padding_begin(),
          shape.padding_end(),
          UserScratchpad(),
          true};
}

// Computes the gradients of one part of the images.
struct GradientSteps {
  explicit GradientSteps(const ConvolutionShape& of) : shape(of) {}

  // `weight` is the weight layout. The first part may choose any layout and stores it there; all
  // other parts use that layout.
  opwright::Status AddInputGradient(const dnnl::convolution_forward::primitive_desc& forward,
                                    dnnl::memory::desc* weight) {
    const dnnl::convolution_backward_data::primitive_desc description(
        CpuEngine(), dnnl::algorithm::convolution_direct, shape.AsPreferred(shape.x()), *weight,
        shape.AsPreferred(shape.out()), shape.strides(), shape.dilations(), shape.padding_begin(),
        shape.padding_end(), forward, UserScratchpad(), true);
    if (!description.get(true)) {
      return opwright::Status::Refused("oneDNN does not support this input gradient");
    }
    *weight = description.weights_desc();
    const dnnl::memory::desc grad = description.diff_src_desc();
    const Operand out_grad = OutGrads(description.diff_dst_desc());
    const Operand result = grad == shape.x() ? Operand{kXGradOperand} : pipeline.AddTemporary(grad);
    pipeline.Add(description, {{DNNL_ARG_DIFF_DST, description.diff_dst_desc(), out_grad},
                               {DNNL_ARG_WEIGHTS, *weight, kWeightOperand},
                               {DNNL_ARG_DIFF_SRC, grad, result}});
    if (result != kXGradOperand) pipeline.AddReorder(grad, result, shape.x(), kXGradOperand);
    return opwright::Status::Ok();
  }

  opwright::Status AddWeightGradient(const dnnl::convolution_forward::primitive_desc& forward,
                                     bool with_bias, dnnl::memory::desc* weight_grad) {
    const dnnl::memory::desc bias = with_bias ? shape.BiasSums() : dnnl::memory::desc();
    const dnnl::convolution_backward_weights::primitive_desc description(
        CpuEngine(), dnnl::algorithm::convolution_direct, shape.AsPreferred(shape.x()),
        *weight_grad, bias, shape.AsPreferred(shape.out()), shape.strides(), shape.dilations(),
        shape.padding_begin(), shape.padding_end(), forward, UserScratchpad(), true);
    if (!description.get(true)) {
      return opwright::Status::Refused("oneDNN does not support this weight gradient");
    }
    *weight_grad = description.diff_weights_desc();
    const dnnl::memory::desc x = description.src_desc();
    std::vector<Pipeline::Argument> arguments{
        {DNNL_ARG_SRC, x, pipeline.Converted(kXOperand, shape.x(), x)},
        {DNNL_ARG_DIFF_DST, description.diff_dst_desc(), OutGrads(description.diff_dst_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, *weight_grad, kWeightSums}};
    if (with_bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, bias, kBiasSums});
    pipeline.Add(description, arguments);
    return opwright::Status::Ok();
  }

  // Returns out_grad in the layout that a primitive reads; both primitives can share one copy.
  Operand OutGrads(const dnnl::memory::desc& layout) {
    if (!has_out_grads || out_grads != layout) {
      out_grads_operand = pipeline.Converted(kOutGradOperand, shape.out(), layout);
      out_grads = layout;
      has_out_grads = true;
    }
    return out_grads_operand;
  }

  const ConvolutionShape& shape;
  Pipeline pipeline;
  dnnl::memory::desc out_grads;
  Operand out_grads_operand = kOutGradOperand;
  bool has_out_grads = false;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_GRADIENT_STEPS_H_
