// Convolution in float64, and its gradients: through matrix products of our own.
#include <algorithm>

#include "onednn/attributes.h"
#include "onednn/columns.h"

namespace opwright_cpu {
namespace {

// Sums of nothing where images or weights have no elements: the outputs are zero, but for the bias.
bool IsEmpty(const opwright::Shape& x, const opwright::Shape& weight, const opwright::Shape& out) {
  return x.numel() == 0 || weight.numel() == 0 || out.numel() == 0;
}

// Channel of element i of images.
struct ChannelOf {
  int64_t channels = 1;
  int64_t inner = 1;

  ChannelOf() = default;
  ChannelOf(const opwright::Shape& images, const Conv2dAttrs& attrs) {
    const bool is_nhwc = attrs.data_format == "NHWC";
    channels = images.dim(is_nhwc ? 3 : 1);
    inner = is_nhwc ? 1 : images.dim(2) * images.dim(3);
  }
  int64_t operator()(int64_t i) const { return i / inner % channels; }
};

uint64_t EstimateNs(const opwright::Shape& weight, const opwright::Shape& out, int32_t n_threads) {
  constexpr double kPerNs = 12.0;  // multiplications of one thread
  const int64_t pixels = out.numel() / std::max<int64_t>(1, weight.dim(0));
  const double work = static_cast<double>(pixels) * static_cast<double>(weight.numel());
  return 1000 + static_cast<uint64_t>(work / kPerNs / n_threads);
}

template <typename T>
struct Conv2dColumnsKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "onednn"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Conv2dAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), weight = ctx.input(1).shape();
    const opwright::Shape out = ctx.output(0).shape();
    channel_of_ = ChannelOf(out, attrs);
    is_empty_ = IsEmpty(x, weight, out);
    if (is_empty_) return opwright::Status::Ok();
    columns_.Make(x, weight, out, attrs, ctx.n_threads());
    ctx.SetWorkspace(columns_.workspace_bytes());
    ctx.SetEstimate(EstimateNs(weight, out, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Conv2dAttrs&) const {
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    if (is_empty_) {
      for (int64_t i = 0; i < ctx.output(0).numel(); ++i) {
        out[i] = bias == nullptr ? T(0) : bias[channel_of_(i)];
      }
      return opwright::Status::Ok();
    }
    columns_.Forward(ctx.input(0).data<T>(), ctx.input(1).data<T>(), bias, out,
                     ctx.workspace<char>());
    return opwright::Status::Ok();
  }

 private:
  Columns<T> columns_;
  ChannelOf channel_of_;
  bool is_empty_ = false;
};

// Slots: x, weight, bias? (its shape only), out_grad -> x_grad?, weight_grad?, bias_grad?.
template <typename T>
struct Conv2dGradColumnsKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // each part sums up the weight's gradient over its images
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Conv2dAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), weight = ctx.input(1).shape();
    const opwright::Shape out = ctx.input(3).shape();
    channel_of_ = ChannelOf(out, attrs);
    is_empty_ = IsEmpty(x, weight, out);
    if (is_empty_) return opwright::Status::Ok();
    columns_.Make(x, weight, out, attrs, ctx.n_threads());
    ctx.SetWorkspace(columns_.workspace_bytes());
    ctx.SetEstimate(2 * EstimateNs(weight, out, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Conv2dAttrs&) const {
    T* grads[3] = {};
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (ctx.has_output(slot)) grads[slot] = ctx.output(slot).data<T>();
    }
    if (is_empty_) {
      RunEmpty(ctx, grads[2]);
      return opwright::Status::Ok();
    }
    const T* slopes = ctx.input(3).data<T>();
    char* workspace = ctx.workspace<char>();
    if (grads[0] != nullptr) {
      columns_.InputGradient(slopes, ctx.input(1).data<T>(), grads[0], workspace);
    }
    columns_.WeightGradient(ctx.input(0).data<T>(), slopes, grads[1], grads[2], workspace);
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
    const opwright::InputTensor slopes = ctx.input(3);
    for (int64_t i = 0; i < slopes.numel(); ++i) {
      bias_grad[channel_of_(i)] += slopes.data<T>()[i];
    }
  }

  Columns<T> columns_;
  ChannelOf channel_of_;
  bool is_empty_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("conv2d", "cpu", opwright_cpu::Conv2dColumnsKernel, double);
OPWRIGHT_REGISTER_KERNEL_FOR("conv2d_grad", "cpu", opwright_cpu::Conv2dGradColumnsKernel, double);
