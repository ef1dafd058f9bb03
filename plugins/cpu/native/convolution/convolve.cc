// Convolution and transposed convolution through oneDNN, alone or fused with following operators.
#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>

#include "common/widened.h"
#include "convolution/attributes.h"
#include "convolution/convolution.h"
#include "convolution/own_convolution.h"
#include "convolution/transposed_columns.h"
#include "onednn/activation.h"
#include "onednn/dtypes.h"
#include "onednn/split_pipeline.h"

namespace opwright_cpu {
namespace {

using dnnl::memory;

// The operations that follow the sums of a convolution, in order of application.
struct Epilogue {
  bool bias = false;
  bool scale = false;  // multiplies each channel by a factor
  bool shift = false;  // adds a value to each channel
  bool residual = false;
  const Eltwise* activation = nullptr;
  OwnActivation own_activation =
      nullptr;  // applies the activation after the primitive instead of in it
};

// The indices of the tensors that a pipeline reads and writes.
enum Tensor : Operand { kX, kWeight, kBias, kScale, kShift, kResidual, kOut, kTensors };

// Divides images among threads, like ImageSplit. If there are fewer images than threads, each image
// is divided into parts of at least `step` rows; if that is impossible, oneDNN divides it among its
// own threads. oneDNN's threads keep spinning for a millisecond after their work, on processors
// that other threads need, so small amounts of work stay in one thread.
struct ConvolutionSplit {
  static constexpr int64_t kNoRows = 0;

  ConvolutionSplit(const ConvolutionShape& shape, const opwright::PrepareContext& ctx, int64_t step)
      : images(shape.images(), ctx), n_rows(shape.rows()), row_step(std::max<int64_t>(step, 1)) {
    if (images.n_threads == 1) return;
    if (step == kNoRows || !shape.has_parts()) {
      constexpr int64_t kLeastOfOwn = int64_t{1} << 26;  // multiplications
      n_threads = shape.multiplications() < kLeastOfOwn ? 1 : images.n_threads;
      return;
    }
    constexpr int64_t kLeast = 1 << 17;  // multiplications per part
    const int64_t most = std::min(n_rows / step, shape.multiplications() / shape.images() / kLeast);
    const int64_t wanted = images.n_threads / std::gcd(shape.images(), int64_t{images.n_threads});
    n_row_parts = static_cast<int32_t>(std::clamp<int64_t>(most, 1, wanted));
    images.n_parts = static_cast<int32_t>(shape.images());
  }

  int32_t n_parts() const { return images.n_parts * n_row_parts; }
  Part images_of(int32_t i) const { return images.part(i / n_row_parts); }
  Part rows_of(int32_t i) const { return PartOf(n_rows, row_step, i % n_row_parts, n_row_parts); }

  ImageSplit images;
  int64_t n_rows;
  int64_t row_step;
  int32_t n_row_parts = 1;
  int32_t n_threads = 1;  // oneDNN's own threads per part
};

// `Forward` is the oneDNN primitive: a convolution, or a deconvolution, which is oneDNN's name for
// a transposed convolution.
template <typename Forward>
class ConvolutionPipeline {
 public:
  static constexpr bool kIsTransposed = std::is_same_v<Forward, dnnl::deconvolution_forward>;

  // Reads a packed weight if that is faster and `may_pack` is true.
  opwright::Status Make(opwright::PrepareContext& ctx, const ConvolutionShape& shape,
                        const Epilogue& epilogue, bool may_pack) {
    weight_plain_ = shape.weight();
    // oneDNN chooses the weight layout by the size of a part and may not support the layout of the
    // first part for other parts.
    opwright::Status status = opwright::Status::Ok();
    for (const int64_t step : {int64_t{1}, int64_t{16}, ConvolutionSplit::kNoRows}) {
      const ConvolutionSplit split(shape, ctx, step);
      if (step > 1 && split.n_row_parts == 1) continue;  // the image has too few rows for this step
      split_ = {};
      weight_used_ = shape.AnyWeight();
      status = AddParts(shape, epilogue, split);
      if (status.ok() || split.n_row_parts == 1) break;
    }
    OPWRIGHT_RETURN_IF_ERROR(status);
    if (weight_used_ != weight_plain_ && may_pack) {
      packed_bytes_ = weight_used_.get_size();
    } else if (weight_used_ != weight_plain_) {
      weight_change_.Make(weight_plain_, weight_used_, ctx.n_threads());
    }
    ctx.SetWorkspace(weight_bytes() +
                     std::max(split_.workspace_bytes(), weight_change_.workspace_bytes()));
    ctx.SetEstimate(EstimateNs(shape, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  static uint64_t EstimateNs(const ConvolutionShape& shape, int32_t n_threads) {
    constexpr double kPerNs = 64.0;  // multiplications per ns in one thread
    return 1000 +
           static_cast<uint64_t>(static_cast<double>(shape.multiplications()) / kPerNs / n_threads);
  }

  bool empty() const { return split_.empty(); }
  uint64_t packed_bytes() const { return packed_bytes_; }
  void Pack(const void* weight, void* packed) const {
    Reorder(weight_plain_, weight, weight_used_, packed);
  }

  struct Bound {
    SplitExecution parts;
    LayoutChangeExecution weight_change;
  };
  void Bind(Bound& bound) const {
    bound.parts.Bind(split_);
    bound.weight_change.Bind(weight_change_);
  }
  void Run(Bound& bound, int32_t n_threads, char* workspace,
           std::array<void*, kTensors> tensors) const {
    char* const scratch = workspace + weight_bytes();
    if (!weight_change_.empty()) {
      bound.weight_change.Run(scratch, tensors[kWeight], workspace);
      tensors[kWeight] = workspace;
    }
    bound.parts.Run(n_threads, scratch, tensors);
  }

 private:
  using Description = typename Forward::primitive_desc;

  opwright::Status AddParts(const ConvolutionShape& shape, const Epilogue& epilogue,
                            const ConvolutionSplit& split) {
    std::string implementation;  // name of oneDNN's implementation for the first part
    for (int32_t i = 0; i < split.n_parts(); ++i) {
      const Part images = split.images_of(i), rows = split.rows_of(i);
      ImageBytes first{};
      first[kX] = images.begin * shape.x_bytes();
      first[kOut] = images.begin * shape.out_bytes();
      ConvolutionShape part = shape.OfImages(images.end - images.begin);
      if (split.n_row_parts > 1) {
        int64_t x_row = 0;
        part = part.OfRows(rows.begin, rows.end, &x_row);
        first[kX] += x_row * shape.x_row_bytes();
        first[kOut] += rows.begin * shape.out_row_bytes();
      }
      first[kResidual] = first[kOut];
      const PartSizes sizes{images.end - images.begin, rows.end - rows.begin,
                            part.padding_begin()[0], part.padding_end()[0]};
      if (split_.AddLike(sizes, first)) continue;
      const ThreadCount count(split.n_threads);
      const Description description = Describe(part, epilogue);
      if (!description.get(true)) {
        return opwright::Status::Unsupported("oneDNN has no convolution of this dtype for it");
      }
      if (i == 0) implementation = description.impl_info_str();
      if (split.n_row_parts > 1 && description.impl_info_str() != implementation) {
        return opwright::Status::Unsupported("oneDNN has no code for the layout of other rows");
      }
      weight_used_ = description.weights_desc();  // all further parts use this layout
      split_.Add(sizes, Steps(description, part, epilogue), first, split.n_threads);
    }
    return opwright::Status::Ok();
  }

  // If the convolution needs an image layout other than NCHW, its other operands use this layout,
  // too.
  Description Describe(const ConvolutionShape& shape, const Epilogue& epilogue) const {
    constexpr auto kind = dnnl::prop_kind::forward_inference;
    constexpr auto algorithm =
        kIsTransposed ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct;
    constexpr bool allow_empty = true;
    const dnnl::primitive_attr attr = Attributes(shape, epilogue);
    const memory::desc x = shape.AsPreferred(shape.x());
    const memory::desc out = shape.AsPreferred(shape.out());
    if (epilogue.bias) {
      return {CpuEngine(),
              kind,
              algorithm,
              x,
              weight_used_,
              shape.bias(),
              out,
              shape.strides(),
              shape.dilations(),
              shape.padding_begin(),
              shape.padding_end(),
              attr,
              allow_empty};
    }
    return {CpuEngine(),
            kind,
            algorithm,
            x,
            weight_used_,
            out,
            shape.strides(),
            shape.dilations(),
            shape.padding_begin(),
            shape.padding_end(),
            attr,
            allow_empty};
  }

  static dnnl::primitive_attr Attributes(const ConvolutionShape& shape, const Epilogue& epilogue) {
    dnnl::post_ops post_ops;
    if (epilogue.scale) post_ops.append_binary(dnnl::algorithm::binary_mul, shape.per_channel());
    if (epilogue.shift) post_ops.append_binary(dnnl::algorithm::binary_add, shape.per_channel());
    if (epilogue.residual) {
      post_ops.append_binary(dnnl::algorithm::binary_add, shape.AsPreferred(shape.out()));
    }
    if (epilogue.activation != nullptr && epilogue.own_activation == nullptr) {
      AppendEltwise(*epilogue.activation, &post_ops);
    }
    dnnl::primitive_attr attr = UserScratchpad();
    attr.set_post_ops(post_ops);
    return attr;
  }

  Pipeline Steps(const Description& description, const ConvolutionShape& shape,
                 const Epilogue& epilogue) const {
    const memory::desc x = description.src_desc();
    const memory::desc out = description.dst_desc();
    const bool out_fits = out == shape.out();
    Pipeline steps;
    const Operand result = out_fits ? Operand{kOut} : steps.AddTemporary(out);
    std::vector<Pipeline::Argument> arguments{{DNNL_ARG_SRC, x, steps.Converted(kX, shape.x(), x)},
                                              {DNNL_ARG_WEIGHTS, weight_used_, kWeight},
                                              {DNNL_ARG_DST, out, result}};
    if (epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, description.bias_desc(), kBias});
    int post_op = 0;
    const auto add_binary = [&](const memory::desc& desc, Operand operand) {
      const int argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_op++) | DNNL_ARG_SRC_1;
      arguments.push_back({argument, desc, operand});
    };
    if (epilogue.scale) add_binary(shape.per_channel(), kScale);
    if (epilogue.shift) add_binary(shape.per_channel(), kShift);
    if (epilogue.residual) add_binary(out, steps.Converted(kResidual, shape.out(), out));
    steps.Add(description, arguments);
    if (epilogue.own_activation != nullptr) {
      steps.SetLast(epilogue.own_activation, kOut, shape.windows() * shape.channels());
    }
    if (!out_fits) steps.AddReorder(out, result, shape.out(), kOut);
    return steps;
  }

  // Returns the size in bytes of the weight copy that each run makes.
  uint64_t weight_bytes() const {
    return weight_change_.empty() ? 0 : WholeLines(weight_used_.get_size());
  }

  SplitPipeline split_;
  LayoutChange weight_change_;
  memory::desc weight_plain_;
  memory::desc weight_used_;
  uint64_t packed_bytes_ = 0;
};

// Slots: x, weight, bias?, scale?, shift?, residual?; out. opwright-std operators have only the
// first three inputs; the plan-only cpu.conv2d_fused, which the pass fuse_conv creates, has all of
// them.
template <typename T, uint32_t kSlots, typename Forward = dnnl::convolution_forward>
struct ConvolutionKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "onednn";
    options.by_threads = true;  // oneDNN chooses its algorithm by the size of a part
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(
        PrepareWithMemory(this, [&](ConvolutionKernel* made) { return made->Make(ctx, attrs); }));
    const uint64_t packed_bytes = own_.packed_bytes() + convolution_.packed_bytes();
    if (packed_bytes == 0) return opwright::Status::Ok();
    return ctx.Pack(kWeight, packed_bytes);
  }

  struct Bound {
    typename ConvolutionPipeline<Forward>::Bound convolution;
    OwnForward::Bound own;
  };
  opwright::Status Bind(const opwright::RunContext&, const ConvolutionAttrs&, Bound& bound) const {
    convolution_.Bind(bound.convolution);
    own_.Bind(bound.own);
    return opwright::Status::Ok();
  }

  opwright::Status Pack(const opwright::RunContext&, uint32_t, const opwright::InputTensor& weight,
                        void* packed) const {
    if (own_.empty()) {
      convolution_.Pack(weight.raw(), packed);
    } else {
      own_.Pack(static_cast<const float*>(weight.raw()), packed);
    }
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const ConvolutionAttrs&,
                       Bound& bound) const {
    if (own_.empty() && convolution_.empty()) return RunEmpty(ctx);
    std::array<void*, kTensors> tensors{};
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (ctx.has_input(slot)) tensors[slot] = const_cast<void*>(ctx.input(slot).raw());
    }
    tensors[kOut] = ctx.output(0).raw();
    if (!own_.empty()) {
      const auto at = [&](Operand tensor) { return static_cast<const float*>(tensors[tensor]); };
      own_.Run(bound.own, at(kX), at(kWeight), {at(kBias), at(kScale), at(kShift), at(kResidual)},
               static_cast<float*>(tensors[kOut]), ctx.workspace<char>());
      return opwright::Status::Ok();
    }
    convolution_.Run(bound.convolution, ctx.n_threads(), ctx.workspace<char>(), tensors);
    return opwright::Status::Ok();
  }

 private:
  opwright::Status Make(opwright::PrepareContext& ctx, const ConvolutionAttrs& attrs) {
    ConvolutionShape shape;
    shape.Make(ctx.input(kX).shape(), ctx.input(kWeight).shape(), ctx.output(0).shape(), attrs,
               OneDnnType<T>(), ConvolutionPipeline<Forward>::kIsTransposed);
    if (shape.is_empty()) return PrepareEmpty(shape);
    Epilogue epilogue;
    epilogue.bias = ctx.has_input(kBias);
    if constexpr (kSlots > kBias + 1) {
      epilogue.scale = ctx.has_input(kScale);
      epilogue.shift = ctx.has_input(kShift);
      epilogue.residual = ctx.has_input(kResidual);
      const std::string& activation = attrs.activation.value();
      epilogue.activation = FindEltwise(activation);
      if (epilogue.activation == nullptr && !activation.empty()) {
        return opwright::Status::Refused("does not support activation ", activation);
      }
      if (std::is_same_v<T, float>) epilogue.own_activation = FindOwnActivation(activation);
    }
    if (std::is_same_v<T, float> && !ConvolutionPipeline<Forward>::kIsTransposed) {
      own_.Make({ctx.input(kX).shape(), ctx.input(kWeight).shape(), ctx.output(0).shape(), &attrs,
                 ctx.n_threads(), epilogue.activation, epilogue.bias,
                 epilogue.scale || epilogue.shift || epilogue.residual, ctx.packable(kWeight)});
    }
    if (own_.empty()) {
      return convolution_.Make(ctx, shape.AsColumn(), epilogue, ctx.packable(kWeight));
    }
    ctx.SetWorkspace(own_.workspace_bytes());
    ctx.SetEstimate(ConvolutionPipeline<Forward>::EstimateNs(shape, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status PrepareEmpty(const ConvolutionShape& shape) {
    if constexpr (kSlots > kBias + 1) {
      return opwright::Status::Refused("does not support empty images or weights");
    }
    channels_ = shape.channels();
    inner_ = shape.inner();
    return opwright::Status::Ok();
  }

  // Writes the output if all sums are empty; it is then the bias.
  opwright::Status RunEmpty(const opwright::RunContext& ctx) const {
    const opwright::OutputTensor out = ctx.output(0);
    const T* bias = ctx.has_input(kBias) ? ctx.input(kBias).data<T>() : nullptr;
    for (int64_t i = 0; i < out.numel(); ++i) {
      out.data<T>()[i] = bias == nullptr ? T{} : bias[i / inner_ % channels_];
    }
    return opwright::Status::Ok();
  }

  OwnForward own_;  // if it is empty, the next member is used
  ConvolutionPipeline<Forward> convolution_;
  int64_t channels_ = 0;
  int64_t inner_ = 1;
};

template <typename T>
struct PlainKernel : ConvolutionKernel<T, 3> {};
template <typename T>
struct TransposedKernel : ConvolutionKernel<T, 3, dnnl::deconvolution_forward> {};
template <>
struct TransposedKernel<float>
    : DeconvolutionOrColumns<ConvolutionKernel<float, 3, dnnl::deconvolution_forward>> {};
template <typename T>
struct FusedConv2dKernel : ConvolutionKernel<T, 6> {};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("conv2d", "cpu", opwright_cpu::PlainKernel, float, opwright::BFloat16);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d", "cpu", opwright_cpu::PlainKernel, float, opwright::BFloat16);
OPWRIGHT_REGISTER_KERNEL_FOR("conv2d_transpose", "cpu", opwright_cpu::TransposedKernel, float,
                             opwright::BFloat16);
OPWRIGHT_REGISTER_KERNEL_FOR("conv3d_transpose", "cpu", opwright_cpu::TransposedKernel, float,
                             opwright::BFloat16);
OPWRIGHT_REGISTER_KERNEL_FOR("cpu.conv2d_fused", "cpu", opwright_cpu::FusedConv2dKernel, float,
                             opwright::BFloat16);
OPWRIGHT_CPU_REGISTER_WIDENED("conv2d", opwright_cpu::PlainKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("conv3d", opwright_cpu::PlainKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("conv2d_transpose", opwright_cpu::TransposedKernel);
OPWRIGHT_CPU_REGISTER_WIDENED("conv3d_transpose", opwright_cpu::TransposedKernel);
