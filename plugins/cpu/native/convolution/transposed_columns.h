// The transposed convolution as matrix products: the input gradient of a convolution, plus a bias.
#ifndef OPWRIGHT_CPU_CONVOLUTION_TRANSPOSED_COLUMNS_H_
#define OPWRIGHT_CPU_CONVOLUTION_TRANSPOSED_COLUMNS_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/parallel.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"

namespace opwright_cpu {

// Slots: x, weight, bias? -> out. `Convolution` is the class that computes the input gradient. Here
// x has the shape of the windows and out has the shape of the images.
template <typename T, typename Convolution>
class TransposedColumns {
 public:
  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), weight = ctx.input(1).shape();
    const opwright::Shape out = ctx.output(0).shape();
    layout_ = ImageLayout(out, IsChannelsLast(attrs.data_format));
    images_ = out.dim(0);
    is_empty_ = x.numel() == 0 || weight.numel() == 0 || out.numel() == 0;
    if (is_empty_) return opwright::Status::Ok();
    convolution_.Make(out, weight, x, attrs, ctx.n_threads());
    ctx.SetWorkspace(convolution_.workspace_bytes());
    constexpr double kPerNs = 12.0;  // multiplications per ns in one thread
    const double work =
        static_cast<double>(x.numel() / weight.dim(0)) * static_cast<double>(weight.numel());
    ctx.SetEstimate(1000 + static_cast<uint64_t>(work / kPerNs / ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx) const {
    T* out = ctx.output(0).data<T>();
    if (is_empty_) {
      std::fill(out, out + ctx.output(0).numel(), T(0));
    } else {
      convolution_.InputGradient(ctx.input(0).data<T>(), ctx.input(1).data<T>(), out,
                                 ctx.workspace<char>());
    }
    if (!ctx.has_input(2)) return opwright::Status::Ok();
    const T* bias = ctx.input(2).data<T>();
    const int64_t grain = kElementGrain / std::max<int64_t>(layout_.size(), 1) + 1;
    ParallelFor(ctx.n_threads(), images_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        AddBias<T>(layout_.pixels(), layout_.channels, bias, layout_.channel,
                   out + image * layout_.size());
      }
    });
    return opwright::Status::Ok();
  }

 private:
  Convolution convolution_;
  ImageLayout layout_;
  int64_t images_ = 0;
  bool is_empty_ = false;
};

// Returns whether the output ends with at least a stride of rows or columns outside all windows,
// which oneDNN's deconvolution refuses.
inline bool IsBeyondStride(const opwright::Shape& x, const opwright::Shape& weight,
                           const opwright::Shape& out, const ConvolutionAttrs& attrs) {
  const int32_t first = IsChannelsLast(attrs.data_format) ? 1 : 2;
  for (int32_t i = 0; i < x.rank() - 2; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t reach = (weight.dim(2 + i) - 1) * attrs.dilations[at] + 1;
    const int64_t whole = (x.dim(first + i) - 1) * attrs.strides[at] + reach;
    const int64_t end = out.dim(first + i) + attrs.paddings[2 * at];
    if (end - whole >= attrs.strides[at]) return true;
  }
  return false;
}

// A float kernel that uses `Deconvolution`, or TransposedColumns if oneDNN refuses the shape.
template <typename Deconvolution>
class DeconvolutionOrColumns {
 public:
  using Bound = typename Deconvolution::Bound;

  static void Configure(opwright::KernelOptions& options) { Deconvolution::Configure(options); }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    is_beyond_ =
        IsBeyondStride(ctx.input(0).shape(), ctx.input(1).shape(), ctx.output(0).shape(), attrs);
    return is_beyond_ ? columns_.Prepare(ctx, attrs) : deconvolution_.Prepare(ctx, attrs);
  }

  opwright::Status Bind(const opwright::RunContext& ctx, const ConvolutionAttrs& attrs,
                        Bound& bound) const {
    return is_beyond_ ? opwright::Status::Ok() : deconvolution_.Bind(ctx, attrs, bound);
  }

  opwright::Status Pack(const opwright::RunContext& ctx, uint32_t slot,
                        const opwright::InputTensor& weight, void* packed) const {
    return deconvolution_.Pack(ctx, slot, weight, packed);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs& attrs,
                       Bound& bound) const {
    return is_beyond_ ? columns_.Run(ctx) : deconvolution_.Run(ctx, attrs, bound);
  }

 private:
  Deconvolution deconvolution_;
  TransposedColumns<float, Columns<float>> columns_;
  bool is_beyond_ = false;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CONVOLUTION_TRANSPOSED_COLUMNS_H_
