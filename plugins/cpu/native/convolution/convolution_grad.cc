// The gradients of a convolution through oneDNN.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/widened.h"
#include "convolution/attributes.h"
#include "convolution/columns.h"
#include "convolution/convolution.h"
#include "convolution/exact_gradients.h"
#include "convolution/gradient_steps.h"
#include "convolution/own_convolution.h"
#include "onednn/dtypes.h"
#include "onednn/split_pipeline.h"

namespace opwright_cpu {
namespace {

using dnnl::memory;

// Slots of conv2d_grad and conv3d_grad: x, weight, bias? (its shape only), out_grad -> x_grad?,
// weight_grad?, bias_grad?.
constexpr uint32_t kOutGradSlot = 3;

// Returns whether each thread sums the weight gradient over its own images before the sums are
// combined. With many weights and few pixels this is slower than one oneDNN primitive that divides
// the weights among its threads.
bool IsSummedByImages(const ConvolutionShape& shape) {
  constexpr uint64_t kFewWeightBytes = uint64_t{1} << 20;
  constexpr int64_t kManyPixels = 2048;
  return shape.weight().get_size() <= kFewWeightBytes || shape.windows() >= kManyPixels;
}

// Up to this number of threads, each thread sums even many weights separately, because a 16-bit
// product takes less time than oneDNN's threads spend waiting for each other.
constexpr int32_t kFewParts = 4;

OPWRIGHT_CPU_CLONES void AddRun(int64_t n, const float* from, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <typename T>
struct ConvolutionGradKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // each part sums the weight gradient over its images
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    return PrepareWithMemory(this,
                             [&](ConvolutionGradKernel* made) { return made->Make(ctx, attrs); });
  }

  struct Bound {
    OwnGradients::Bound own;
    SplitExecution parts;
    SplitExecution whole;
    LayoutChangeExecution weight_change;
    LayoutChangeExecution weight_grad_change;
    ExactGradients::Bound exact;
  };
  opwright::Status Bind(const opwright::RunContext&, const ConvolutionAttrs&, Bound& bound) const {
    own_.Bind(bound.own);
    bound.parts.Bind(parts_);
    bound.whole.Bind(whole_);
    bound.weight_change.Bind(weight_change_);
    bound.weight_grad_change.Bind(weight_grad_change_);
    exact_.Bind(bound.exact);
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&,
                       Bound& bound) const {
    if (!own_.empty()) {
      RunOwn(ctx, bound.own);
      return opwright::Status::Ok();
    }
    if (parts_.empty() && whole_.empty() && !by_columns_) {
      RunEmpty(ctx);
      return opwright::Status::Ok();
    }
    char* const workspace = ctx.workspace<char>();
    char* const scratch = workspace + scratch_;
    std::array<void*, kGradOperands> tensors{};
    tensors[kXOperand] = const_cast<void*>(ctx.input(0).raw());
    tensors[kWeightOperand] = const_cast<void*>(ctx.input(1).raw());
    tensors[kOutGradOperand] = const_cast<void*>(ctx.input(kOutGradSlot).raw());
    tensors[kXGradOperand] = ctx.has_output(0) ? ctx.output(0).raw() : nullptr;
    tensors[kWeightSums] = workspace + weight_sums_;
    tensors[kBiasSums] = workspace + bias_sums_;
    if constexpr (std::is_same_v<T, float>) {
      if (by_columns_) {
        columns_.InputGradient(static_cast<const float*>(tensors[kOutGradOperand]),
                               static_cast<const float*>(tensors[kWeightOperand]),
                               static_cast<float*>(tensors[kXGradOperand]), scratch);
      }
    }
    if (!weight_change_.empty()) {
      bound.weight_change.Run(scratch, tensors[kWeightOperand], workspace);
      tensors[kWeightOperand] = workspace;
    }
    bound.parts.Run(ctx.n_threads(), scratch, tensors);
    bound.whole.Run(ctx.n_threads(), scratch, tensors);
    FinishWeight(ctx, bound, scratch);
    FinishInput(ctx, bound, scratch);
    return opwright::Status::Ok();
  }

 private:
  opwright::Status Make(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    shape_.Make(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(), attrs,
                OneDnnType<T>());
    if (shape_.is_empty()) return PrepareEmpty();
    with_bias_ = ctx.has_output(2);
    with_weight_ = ctx.has_output(1) || with_bias_;
    const int64_t products = (ctx.has_output(0) ? 1 : 0) + (with_weight_ ? 1 : 0);
    constexpr double kPerNs = 48.0;  // multiplications per ns in one thread
    const double work = static_cast<double>(shape_.multiplications() * products);
    ctx.SetEstimate(1000 + static_cast<uint64_t>(work / kPerNs / ctx.n_threads()));
    if (std::is_same_v<T, float>) {
      own_.Make({ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(),
                 &attrs, ctx.n_threads()});
      if (!own_.empty()) {
        ctx.SetWorkspace(own_.workspace_bytes());
        return opwright::Status::Ok();
      }
    }
    by_columns_ = std::is_same_v<T, float> && ctx.has_output(0) &&
                  IsFasterByColumns(ctx.input(1).shape(), attrs);
    if (by_columns_) {
      columns_.Make(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(),
                    attrs, ctx.n_threads());
    }
    weight_used_ = shape_.AnyWeight();
    weight_grad_used_ = shape_.AnyWeightSums();
    OPWRIGHT_RETURN_IF_ERROR(MakePipelines(ctx, ctx.has_output(0) && !by_columns_));
    if (has_x_pipeline_ && weight_used_ != shape_.weight()) {
      weight_change_.Make(shape_.weight(), weight_used_, ctx.n_threads());
    }
    if (with_weight_ && weight_grad_used_ != shape_.weight()) {
      weight_grad_change_.Make(weight_grad_used_, shape_.weight(), ctx.n_threads());
    }
    if (!std::is_same_v<T, float>) {
      ConvolutionShape wide;
      wide.Make(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(kOutGradSlot).shape(), attrs,
                memory::data_type::f32);
      OPWRIGHT_RETURN_IF_ERROR(
          exact_.Make(wide.OfImages(1), ctx.has_output(0), with_weight_, with_bias_));
    }
    ctx.SetWorkspace(LayWorkspace());
    return opwright::Status::Ok();
  }

  static opwright::Status PrepareEmpty() {
    if constexpr (!std::is_same_v<T, float>) {
      return opwright::Status::Refused("does not support empty images or weights");
    }
    return opwright::Status::Ok();
  }

  void RunOwn(const opwright::RunContext& ctx, OwnGradients::Bound& bound) const {
    const auto input = [&](uint32_t i) { return static_cast<const float*>(ctx.input(i).raw()); };
    const auto output = [&](uint32_t slot) {
      return ctx.has_output(slot) ? static_cast<float*>(ctx.output(slot).raw()) : nullptr;
    };
    own_.Run(bound, input(0), input(1), input(kOutGradSlot), {output(0), output(1), output(2)},
             ctx.workspace<char>());
  }

  // Writes the gradients of an empty convolution. These gradients are zero, except for the bias
  // gradient of images without input channels.
  void RunEmpty(const opwright::RunContext& ctx) const {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (!ctx.has_output(slot)) continue;
      const opwright::OutputTensor grad = ctx.output(slot);
      const size_t bytes = static_cast<size_t>(grad.numel()) * sizeof(T);
      if (bytes > 0) std::memset(grad.raw(), 0, bytes);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!ctx.has_output(2)) return;
      const opwright::InputTensor out_grads = ctx.input(kOutGradSlot);
      float* sums = ctx.output(2).template data<float>();
      for (int64_t i = 0; i < out_grads.numel(); ++i) {
        sums[i / shape_.inner() % shape_.channels()] += out_grads.template data<float>()[i];
      }
    }
  }

  opwright::Status MakePipelines(const opwright::PrepareContext& ctx, bool with_x) {
    has_x_pipeline_ = with_x;
    const ImageSplit split(shape_.images(), ctx);
    const bool by_images = IsSummedByImages(shape_) || ctx.deterministic() ||
                           (!std::is_same_v<T, float> && split.n_parts <= kFewParts);
    const bool with_weight = with_weight_ && by_images;
    if (with_x || with_weight) {
      OPWRIGHT_RETURN_IF_ERROR(AddParts(split, with_x, with_weight, &parts_));
    }
    if (with_weight_ && !by_images) {
      ImageSplit one;
      one.n_images = shape_.images();
      one.n_threads = ctx.deterministic() ? 1 : ctx.n_threads();
      OPWRIGHT_RETURN_IF_ERROR(AddParts(one, false, true, &whole_));
    }
    n_sums_ = with_weight ? split.n_parts : 1;
    return opwright::Status::Ok();
  }

  opwright::Status AddParts(const ImageSplit& split, bool with_x, bool with_weight,
                            SplitPipeline* pipelines) {
    const ThreadCount count(split.n_threads);
    for (int32_t i = 0; i < split.n_parts; ++i) {
      const Part images = split.part(i);
      const int64_t n_images = images.end - images.begin;
      if (i > 0 && pipelines->AddLike({n_images}, FirstBytes(images, i, with_weight))) continue;
      const ConvolutionShape shape = shape_.OfImages(n_images);
      const dnnl::convolution_forward::primitive_desc forward = ForwardOf(shape);
      if (!forward.get(true)) {
        return opwright::Status::Unsupported("oneDNN has no convolution of this dtype for it");
      }
      GradientSteps steps(shape);
      if (with_x) OPWRIGHT_RETURN_IF_ERROR(steps.AddInputGradient(forward, &weight_used_));
      if (with_weight) {
        if (!std::is_same_v<T, float> && IsColumnOfOneChannel()) {
          return opwright::Status::Refused(
              "strides beyond the kernel over a column of one channel");
        }
        OPWRIGHT_RETURN_IF_ERROR(steps.AddWeightGradient(forward, with_bias_, &weight_grad_used_));
      }
      pipelines->Add({n_images}, std::move(steps.pipeline), FirstBytes(images, i, with_weight),
                     split.n_threads);
    }
    return opwright::Status::Ok();
  }

  // Returns the byte offsets of part i in each tensor. The layout of the sums must have been set.
  ImageBytes FirstBytes(Part images, int32_t i, bool with_weight) const {
    ImageBytes first{};
    first[kXOperand] = first[kXGradOperand] = images.begin * shape_.x_bytes();
    first[kOutGradOperand] = images.begin * shape_.out_bytes();
    if (with_weight) {
      first[kWeightSums] = i * static_cast<int64_t>(WholeLines(weight_grad_used_.get_size()));
      first[kBiasSums] = i * static_cast<int64_t>(WholeLines(shape_.bias_sum_bytes()));
    }
    return first;
  }

  // Returns whether oneDNN would multiply 16-bit values by uninitialized scratchpad memory.
  bool IsColumnOfOneChannel() const {
    const memory::dims weight = shape_.weight().get_dims();
    const size_t channels = weight.size() - shape_.strides().size() - 1;
    const int64_t reach = (weight.back() - 1) * (shape_.dilations().back() + 1) + 1;
    return weight[channels] == 1 && shape_.out().get_dims().back() == 1 &&
           shape_.strides().back() > reach;
  }

  // Lays out the workspace: the weight in the layout for the input gradient, the sums of all parts,
  // and the scratch memory of steps. Sums that are computed after the parts reuse the memory of the
  // weight. Returns the total size in bytes.
  uint64_t LayWorkspace() {
    const auto n_sums = static_cast<uint64_t>(n_sums_);
    const uint64_t weight = weight_change_.empty() ? 0 : WholeLines(weight_used_.get_size());
    weight_sums_ = whole_.empty() ? weight : 0;
    bias_sums_ = weight_sums_;
    if (with_weight_) bias_sums_ += n_sums * WholeLines(weight_grad_used_.get_size());
    scratch_ = bias_sums_ + (with_bias_ ? n_sums * WholeLines(shape_.bias_sum_bytes()) : 0);
    scratch_ = std::max(scratch_, weight);
    uint64_t most = by_columns_ ? columns_.workspace_bytes() : 0;
    for (const uint64_t bytes :
         {exact_.workspace_bytes(), parts_.workspace_bytes(), whole_.workspace_bytes(),
          weight_change_.workspace_bytes(), weight_grad_change_.workspace_bytes()}) {
      most = std::max(most, bytes);
    }
    return scratch_ + most;
  }

  // Accumulates the sums of the parts in the order of the images and rounds them into the outputs.
  void FinishWeight(const opwright::RunContext& ctx, Bound& bound, char* scratch) const {
    if (!with_weight_) return;
    char* const sums = ctx.workspace<char>() + weight_sums_;
    char* const bias_sums = ctx.workspace<char>() + bias_sums_;
    const uint64_t bias_bytes = shape_.bias_sum_bytes();
    const bool is_special = AddUp(sums, weight_grad_used_.get_size(), ctx.n_threads());
    if (with_bias_) AddUp(bias_sums, bias_bytes, 1);
    T* weight_grad = ctx.has_output(1) ? ctx.output(1).template data<T>() : nullptr;
    T* bias_grad = with_bias_ ? ctx.output(2).template data<T>() : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      if (bias_grad != nullptr) std::memcpy(bias_grad, bias_sums, bias_bytes);
    } else {
      if (is_special) {
        exact_.WeightGradient(bound.exact, ImagesOf(ctx), weight_grad, bias_grad, scratch);
        return;
      }
      if (bias_grad != nullptr) {
        HalfRowsOf(opwright::DtypeOf<T>())
            .narrow(reinterpret_cast<const float*>(bias_sums), bias_grad, shape_.channels());
      }
    }
    if (weight_grad == nullptr) return;
    if (weight_grad_change_.empty()) {
      std::memcpy(weight_grad, sums, weight_grad_used_.get_size());
    } else {
      bound.weight_grad_change.Run(scratch, sums, weight_grad);
    }
  }

  // Recomputes the input gradient if a weight is infinite or NaN.
  void FinishInput(const opwright::RunContext& ctx, Bound& bound, char* scratch) const {
    if constexpr (!std::is_same_v<T, float>) {
      if (!has_x_pipeline_) return;
      const opwright::InputTensor weight = ctx.input(1);
      const T* numbers = weight.template data<T>();
      std::atomic<bool> is_special{false};
      ParallelFor(ctx.n_threads(), weight.numel(), kElementGrain, 32,
                  [&](int64_t begin, int64_t end) {
                    if (HasSpecial(end - begin, numbers + begin)) is_special = true;
                  });
      if (!is_special) return;
      exact_.InputGradient(bound.exact, ImagesOf(ctx), numbers, ctx.output(0).template data<T>(),
                           scratch);
    }
  }

  ExactGradients::Images ImagesOf(const opwright::RunContext& ctx) const {
    const auto at = [&](uint32_t slot) {
      return static_cast<const opwright::BFloat16*>(ctx.input(slot).raw());
    };
    return {shape_.images(), at(0), at(kOutGradSlot)};
  }

  // Accumulates the sums of all parts; returns whether a sum is infinite or NaN.
  bool AddUp(char* sums, uint64_t bytes, int32_t n_threads) const {
    auto* total = reinterpret_cast<float*>(sums);
    const auto n = static_cast<int64_t>(bytes / sizeof(float));
    const auto distance = static_cast<int64_t>(WholeLines(bytes) / sizeof(float));
    std::atomic<bool> is_special{false};
    ParallelFor(n_threads, n, kElementGrain, 16, [&](int64_t begin, int64_t end) {
      for (int32_t part = 1; part < n_sums_; ++part) {
        AddRun(end - begin, total + part * distance + begin, total + begin);
      }
      if (!std::is_same_v<T, float> && HasSpecial(end - begin, total + begin)) is_special = true;
    });
    return is_special;
  }

  OwnGradients own_;      // if it is empty, the members below are used
  ExactGradients exact_;  // for bfloat16
  ConvolutionShape shape_;
  SplitPipeline parts_;  // processes parts of the images
  SplitPipeline whole_;  // computes the weight gradient if oneDNN divides the weights
  LayoutChange weight_change_;
  LayoutChange weight_grad_change_;
  memory::desc weight_used_;
  memory::desc weight_grad_used_;
  Columns<float> columns_;
  uint64_t weight_sums_ = 0, bias_sums_ = 0, scratch_ = 0;  // byte offsets in the workspace
  int32_t n_sums_ = 1;
  bool with_weight_ = false, with_bias_ = false;
  bool has_x_pipeline_ = false;
  bool by_columns_ = false;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("conv2d_grad", "cpu", opwright_cpu::ConvolutionGradKernel, float,
                             opwright::BFloat16);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d_grad", "cpu", opwright_cpu::ConvolutionGradKernel, float,
                             opwright::BFloat16);
OPWRIGHT_CPU_REGISTER_WIDENED("conv2d_grad", opwright_cpu::ConvolutionGradKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("conv3d_grad", opwright_cpu::ConvolutionGradKernel);
