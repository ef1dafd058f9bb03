// Convolution in float64 and its gradients, computed by this package's own matrix products.
#include <algorithm>

#include "common/attributes.h"
#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"
#include "convolution/depthwise.h"
#include "convolution/transposed_columns.h"

namespace opwright_cpu {
namespace {

// Returns whether a tensor is empty. All sums are then empty, and outputs are zero or the bias.
bool IsEmpty(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out) {
  return x.numel() == 0 || weight.numel() == 0 || out.numel() == 0;
}

// Returns the channel of element i of images.
struct ChannelOf {
  int64_t channels = 1;
  int64_t inner = 1;

  ChannelOf() = default;
  ChannelOf(const opwright::Shape& images, const ConvolutionAttrs& attrs) {
    const ImageLayout layout(images, IsChannelsLast(attrs.data_format));
    channels = layout.channels;
    inner = layout.channel;
  }
  int64_t operator()(int64_t i) const { return i / inner % channels; }
};

// Computes a convolution either with Depthwise or through im2col.
template <typename T>
class Convolver {
 public:
  void Make(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out,
            const ConvolutionAttrs& attrs, int32_t n_threads) {
    is_depthwise_ = IsDepthwise(weight, attrs);
    if (is_depthwise_) {
      depthwise_.Make(x, weight, out, attrs, n_threads);
    } else {
      columns_.Make(x, weight, out, attrs, n_threads);
    }
  }
  uint64_t workspace_bytes() const {
    return is_depthwise_ ? depthwise_.workspace_bytes() : columns_.workspace_bytes();
  }
  void InputGradient(const T* out_grad, const T* weight, T* x_grad, char* workspace) const {
    With([&](const auto& way) { way.InputGradient(out_grad, weight, x_grad, workspace); });
  }
  // Calls function(convolution) with the method chosen in Make.
  template <typename Function>
  void With(const Function& function) const {
    if (is_depthwise_) {
      function(depthwise_);
    } else {
      function(columns_);
    }
  }

 private:
  bool is_depthwise_ = false;
  Columns<T> columns_;
  Depthwise<T> depthwise_;
};

uint64_t EstimateNs(const opwright::Shape& weight, const opwright::Shape& out, int32_t n_threads) {
  constexpr double kPerNs = 12.0;  // multiplications per ns in one thread
  const int64_t pixels = out.numel() / std::max<int64_t>(1, weight.dim(0));
  const double work = static_cast<double>(pixels) * static_cast<double>(weight.numel());
  return 1000 + static_cast<uint64_t>(work / kPerNs / n_threads);
}

template <typename T>
struct ConvolutionColumnsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), weight = ctx.input(1).shape();
    const opwright::Shape out = ctx.output(0).shape();
    channel_of_ = ChannelOf(out, attrs);
    is_empty_ = IsEmpty(x, weight, out);
    if (is_empty_) return opwright::Status::Ok();
    convolver_.Make(x, weight, out, attrs, ctx.n_threads());
    ctx.SetWorkspace(convolver_.workspace_bytes());
    ctx.SetEstimate(EstimateNs(weight, out, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&) const {
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    if (is_empty_) {
      for (int64_t i = 0; i < ctx.output(0).numel(); ++i) {
        out[i] = bias == nullptr ? T(0) : bias[channel_of_(i)];
      }
      return opwright::Status::Ok();
    }
    convolver_.With([&](const auto& way) {
      way.Forward(ctx.input(0).data<T>(), ctx.input(1).data<T>(), bias, out, ctx.workspace<char>());
    });
    return opwright::Status::Ok();
  }

 private:
  Convolver<T> convolver_;
  ChannelOf channel_of_;
  bool is_empty_ = false;
};

template <typename T>
struct ConvTransposeColumnsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    return transposed_.Prepare(ctx, attrs);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&) const {
    return transposed_.Run(ctx);
  }

 private:
  TransposedColumns<T, Convolver<T>> transposed_;
};

// Slots: x, weight, bias? (its shape only), out_grad -> x_grad?, weight_grad?, bias_grad?.
template <typename T>
struct ConvolutionGradColumnsKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // each part sums the weight gradient over its images
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), weight = ctx.input(1).shape();
    const opwright::Shape out = ctx.input(3).shape();
    channel_of_ = ChannelOf(out, attrs);
    is_empty_ = IsEmpty(x, weight, out);
    if (is_empty_) return opwright::Status::Ok();
    convolver_.Make(x, weight, out, attrs, ctx.n_threads());
    ctx.SetWorkspace(convolver_.workspace_bytes());
    ctx.SetEstimate(2 * EstimateNs(weight, out, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&) const {
    T* grads[3] = {};
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (ctx.has_output(slot)) grads[slot] = ctx.output(slot).data<T>();
    }
    if (is_empty_) {
      RunEmpty(ctx, grads[2]);
      return opwright::Status::Ok();
    }
    const T* out_grads = ctx.input(3).data<T>();
    char* workspace = ctx.workspace<char>();
    convolver_.With([&](const auto& way) {
      if (grads[0] != nullptr) {
        way.InputGradient(out_grads, ctx.input(1).data<T>(), grads[0], workspace);
      }
      way.WeightGradient(ctx.input(0).data<T>(), out_grads, grads[1], grads[2], workspace);
    });
    return opwright::Status::Ok();
  }

 private:
  void RunEmpty(const opwright::RunContext& ctx, T* bias_grad) const {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (!ctx.has_output(slot)) continue;
      const opwright::OutputTensor grad = ctx.output(slot);
      std::fill(grad.data<T>(), grad.data<T>() + grad.numel(), T(0));
    }
    if (bias_grad == nullptr) return;
    const opwright::InputTensor out_grads = ctx.input(3);
    for (int64_t i = 0; i < out_grads.numel(); ++i) {
      bias_grad[channel_of_(i)] += out_grads.data<T>()[i];
    }
  }

  Convolver<T> convolver_;
  ChannelOf channel_of_;
  bool is_empty_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("conv2d", "cpu", opwright_cpu::ConvolutionColumnsKernel, double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d", "cpu", opwright_cpu::ConvolutionColumnsKernel, double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv2d_transpose", "cpu", opwright_cpu::ConvTransposeColumnsKernel,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d_transpose", "cpu", opwright_cpu::ConvTransposeColumnsKernel,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv2d_grad", "cpu", opwright_cpu::ConvolutionGradColumnsKernel,
                             double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d_grad", "cpu", opwright_cpu::ConvolutionGradColumnsKernel,
                             double);
