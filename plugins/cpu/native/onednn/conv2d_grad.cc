// The gradients of a convolution through oneDNN.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "onednn/columns.h"
#include "onednn/convolution.h"
#include "onednn/dtypes.h"
#include "onednn/ops.h"
#include "onednn/pipeline.h"

namespace opwright_cpu {
namespace {

using dnnl::memory;

// Slots of conv2d_grad: x, weight, bias? (its shape only), out_grad? -> x_grad?, weight_grad?,
// bias_grad?.
constexpr uint32_t kOutGradSlot = 3;

// The numbers of the tensors that the pipeline works on.
enum Tensor : Operand { kX, kWeight, kOutGrad, kXGrad, kWeightGrad, kBiasGrad, kTensors };

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

template <typename T>
struct Conv2dGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Conv2dAttrs& attrs) {
    if (!ctx.has_input(kOutGradSlot)) return opwright::Status::Ok();
    shape_.Make(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(), attrs,
                OneDnnType<T>());
    if (shape_.is_empty()) return PrepareEmpty();
    const bool with_bias = ctx.has_output(2);
    const int64_t products = (ctx.has_output(0) ? 1 : 0) + (ctx.has_output(1) || with_bias ? 1 : 0);
    constexpr double kPerNs = 48.0;  // multiplications of one thread
    const double work = static_cast<double>(shape_.multiplications() * products);
    ctx.SetEstimate(1000 + static_cast<uint64_t>(work / kPerNs / ctx.n_threads()));
    const ThreadCount count(ctx.n_threads());
    const memory::desc slopes = shape_.AsPreferred(shape_.out());
    const dnnl::convolution_forward::primitive_desc forward(
        CpuEngine(), dnnl::prop_kind::forward_training, kDirect, shape_.AsPreferred(shape_.x()),
        shape_.AnyWeight(), slopes, shape_.strides(), shape_.dilations(), shape_.padding_begin(),
        shape_.padding_end(), UserScratchpad(), true);
    if (!forward.get(true)) {
      return opwright::Status::Refused("oneDNN has no convolution of this dtype for this machine");
    }
    uint64_t column_bytes = 0;
    by_columns_ = std::is_same_v<T, float> && ctx.has_output(0) &&
                  IsFasterByColumns(ctx.input(1).shape(), attrs);
    if (by_columns_) {
      columns_.Make(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(),
                    attrs, ctx.n_threads());
      column_bytes = columns_.workspace_bytes();
    } else if (ctx.has_output(0)) {
      OPWRIGHT_RETURN_IF_ERROR(AddInputGradient(forward));
    }
    if (ctx.has_output(1) || with_bias) {
      OPWRIGHT_RETURN_IF_ERROR(AddWeightGradient(forward, ctx.has_output(1), with_bias));
    }
    ctx.SetWorkspace(std::max(pipeline_.workspace_bytes(), column_bytes));
    return opwright::Status::Ok();
  }

  struct Bound {
    PipelineExecution execution;
  };
  opwright::Status Bind(const opwright::RunContext&, const Conv2dAttrs&, Bound& bound) const {
    bound.execution.Bind(pipeline_);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Conv2dAttrs&, Bound& bound) const {
    void* tensors[kTensors] = {};
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (ctx.has_output(slot))
        tensors[kXGrad + static_cast<Operand>(slot)] = ctx.output(slot).raw();
    }
    if (pipeline_.empty() && !by_columns_) {
      RunEmpty(ctx);
      return opwright::Status::Ok();
    }
    tensors[kX] = const_cast<void*>(ctx.input(0).raw());
    tensors[kWeight] = const_cast<void*>(ctx.input(1).raw());
    tensors[kOutGrad] = const_cast<void*>(ctx.input(kOutGradSlot).raw());
    if constexpr (std::is_same_v<T, float>) {
      if (by_columns_) {
        columns_.InputGradient(static_cast<const float*>(tensors[kOutGrad]),
                               static_cast<const float*>(tensors[kWeight]),
                               static_cast<float*>(tensors[kXGrad]), ctx.workspace<char>());
      }
    }
    bound.execution.Run(ctx.n_threads(), ctx.workspace<char>(), tensors);
    return opwright::Status::Ok();
  }

 private:
  static opwright::Status PrepareEmpty() {
    if constexpr (!std::is_same_v<T, float>) {
      return opwright::Status::Refused("images or weights without elements");
    }
    return opwright::Status::Ok();
  }

  // Without out_grad or without elements all gradients are zero, but that of the bias, which images
  // without channels still have.
  void RunEmpty(const opwright::RunContext& ctx) const {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (!ctx.has_output(slot)) continue;
      const opwright::OutputTensor grad = ctx.output(slot);
      const size_t bytes = static_cast<size_t>(grad.numel()) * sizeof(T);
      if (bytes > 0) std::memset(grad.raw(), 0, bytes);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!ctx.has_output(2) || !ctx.has_input(kOutGradSlot)) return;
      const opwright::InputTensor slopes = ctx.input(kOutGradSlot);
      float* sums = ctx.output(2).template data<float>();
      for (int64_t i = 0; i < slopes.numel(); ++i) {
        sums[i / shape_.inner() % shape_.channels()] += slopes.template data<float>()[i];
      }
    }
  }

  opwright::Status AddInputGradient(const dnnl::convolution_forward::primitive_desc& forward) {
    const dnnl::convolution_backward_data::primitive_desc description(
        CpuEngine(), kDirect, shape_.AsPreferred(shape_.x()), shape_.AnyWeight(),
        shape_.AsPreferred(shape_.out()), shape_.strides(), shape_.dilations(),
        shape_.padding_begin(), shape_.padding_end(), forward, UserScratchpad(), true);
    if (!description.get(true)) {
      return opwright::Status::Refused("oneDNN has no gradient of this convolution's input");
    }
    const memory::desc weight = description.weights_desc();
    const memory::desc grad = description.diff_src_desc();
    const Operand slopes = Slopes(description.diff_dst_desc());
    const Operand result = grad == shape_.x() ? Operand{kXGrad} : pipeline_.AddTemporary(grad);
    pipeline_.Add(description, {{DNNL_ARG_DIFF_DST, description.diff_dst_desc(), slopes},
                                {DNNL_ARG_WEIGHTS, weight,
                                 pipeline_.Converted(kWeight, shape_.weight(), weight)},
                                {DNNL_ARG_DIFF_SRC, grad, result}});
    if (result != kXGrad) pipeline_.AddReorder(grad, result, shape_.x(), kXGrad);
    return opwright::Status::Ok();
  }

  opwright::Status AddWeightGradient(const dnnl::convolution_forward::primitive_desc& forward,
                                     bool with_weight, bool with_bias) {
    if (!std::is_same_v<T, float> && IsColumnOfOneChannel()) {
      return opwright::Status::Refused("strides beyond the kernel over a column of one channel");
    }
    const memory::desc bias = with_bias ? shape_.bias() : memory::desc();
    const dnnl::convolution_backward_weights::primitive_desc description(
        CpuEngine(), kDirect, shape_.AsPreferred(shape_.x()), shape_.AnyWeight(), bias,
        shape_.AsPreferred(shape_.out()), shape_.strides(), shape_.dilations(),
        shape_.padding_begin(), shape_.padding_end(), forward, UserScratchpad(), true);
    if (!description.get(true)) {
      return opwright::Status::Refused("oneDNN has no gradient of this convolution's weight");
    }
    const memory::desc x = description.src_desc();
    const memory::desc grad = description.diff_weights_desc();
    const bool in_place = with_weight && grad == shape_.weight();
    const Operand result = in_place ? Operand{kWeightGrad} : pipeline_.AddTemporary(grad);
    std::vector<Pipeline::Argument> arguments{
        {DNNL_ARG_SRC, x, pipeline_.Converted(kX, shape_.x(), x)},
        {DNNL_ARG_DIFF_DST, description.diff_dst_desc(), Slopes(description.diff_dst_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, grad, result}};
    if (with_bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, bias, kBiasGrad});
    pipeline_.Add(description, arguments);
    if (with_weight && !in_place) {
      pipeline_.AddReorder(grad, result, shape_.weight(), kWeightGrad);
    }
    return opwright::Status::Ok();
  }

  // There oneDNN multiplies 16-bit numbers with a scratchpad that it has not filled.
  bool IsColumnOfOneChannel() const {
    const memory::dims weight = shape_.weight().get_dims();
    const size_t rank = weight.size();
    const int64_t reach = (weight[rank - 1] - 1) * (shape_.dilations()[1] + 1) + 1;
    return weight[rank - 3] == 1 && shape_.out().get_dims()[3] == 1 && shape_.strides()[1] > reach;
  }

  // out_grad in the layout that a primitive reads; both may read the same copy.
  Operand Slopes(const memory::desc& layout) {
    if (!has_slopes_ || slopes_ != layout) {
      slopes_operand_ = pipeline_.Converted(kOutGrad, shape_.out(), layout);
      slopes_ = layout;
      has_slopes_ = true;
    }
    return slopes_operand_;
  }

  ConvolutionShape shape_;
  Pipeline pipeline_;
  Columns<float> columns_;
  bool by_columns_ = false;
  memory::desc slopes_;
  Operand slopes_operand_ = kOutGrad;
  bool has_slopes_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_GRADIENT_KERNEL(conv2d, "cpu", opwright_cpu::Conv2dGradKernel, float,
                                  opwright::BFloat16);
