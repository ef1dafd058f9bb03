// Derives a kernel for float16 and bfloat16 from a kernel for float. The float kernel gets float
// copies of the 16-bit tensors in the workspace, and its results are rounded once.
//
//   OPWRIGHT_REGISTER_KERNEL_FOR("lrn", "cpu", opwright_cpu::LrnKernel, float, double);
//   OPWRIGHT_CPU_REGISTER_WIDENED("lrn", opwright_cpu::LrnKernel);
//
// The copies cost one pass over the tensors; this is cheap compared with long computations. The
// derived kernel has the library name of the original kernel with the suffix "_widened". Its
// priority is lower than the original's, so a kernel with its own 16-bit loops is preferred. All
// other properties of the kernel are preserved: its options (an output that shares the memory of an
// input does so in the copies, too), its slots with other dtypes, its absent and shape-only slots,
// its workspace, its bound state, its packed weights, and its estimate, to which the copies are
// added. Only outputs whose shape depends on values are rejected.
#ifndef OPWRIGHT_CPU_COMMON_WIDENED_H_
#define OPWRIGHT_CPU_COMMON_WIDENED_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <opwright/sdk.hpp>
#include <type_traits>
#include <vector>

#include "common/half_rows.h"

namespace opwright_cpu {

// The arguments of a frame, with float tensors in place of 16-bit tensors.
class WideArguments {
 public:
  WideArguments(DLTensor* const* args, uint32_t n_args);

  DLTensor* const* args() const { return args_.data(); }
  DLTensor& tensor(uint32_t arg) { return tensors_[arg]; }

  // Updates the data pointers before each run, since they may change. Until then, the data of a
  // copied argument is NULL.
  void Update(DLTensor* const* args);

 private:
  std::vector<DLTensor> tensors_;
  std::vector<DLTensor*> args_;
};

// The frame that is passed to the kernel's prepare.
class WidePrepare {
 public:
  explicit WidePrepare(const opwright::PrepareContext& ctx);
  opwright::PrepareContext& context() { return context_; }
  const ow_prepare& frame() const { return frame_; }

 private:
  WideArguments arguments_;
  ow_prepare frame_;
  opwright::PrepareContext context_;
};

// The frame that is passed to one running instance of the kernel, at a fixed address.
class WideCall {
 public:
  WideCall(const ow_call& call, uint32_t n_args) : arguments_(call.args, n_args), frame_(call) {
    frame_.args = arguments_.args();
  }
  WideCall(const WideCall&) = delete;
  WideCall& operator=(const WideCall&) = delete;

  WideArguments& arguments() { return arguments_; }
  ow_call& frame() { return frame_; }

 private:
  WideArguments arguments_;
  ow_call frame_;
};

// Records which arguments are copied, and the offsets of the copies.
class Widening {
 public:
  // Called after the kernel's prepare; sets the combined workspace and estimate.
  opwright::Status Finish(opwright::PrepareContext& ctx, const WidePrepare& wide);

  uint32_t n_inputs() const { return n_inputs_; }
  uint32_t n_args() const { return n_args_; }
  DLDataType dtype() const { return dtype_; }  // float16 or bfloat16

  // Convert the inputs before the kernel's run, and the outputs after it.
  void Widen(const opwright::RunContext& ctx, WideCall& wide) const;
  void Round(const opwright::RunContext& ctx, WideCall& wide) const;

 private:
  struct Copy {
    uint32_t arg;
    int64_t n;
    uint64_t offset_bytes;  // offset in the workspace
  };

  // The copy of the input whose memory an output shares, or the output's own copy.
  const Copy& CopyOf(const Copy& output, DLTensor* const* args) const;

  uint32_t n_inputs_ = 0;
  uint32_t n_args_ = 0;
  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  uint64_t bytes_ = 0;  // size of all copies; the kernel's own workspace follows them
  DLDataType dtype_{};
  HalfRows rows_;
};

namespace detail {

struct NoBound {};

template <typename K, typename = void>
struct BoundOf {
  using Type = NoBound;
};
template <typename K>
struct BoundOf<K, std::void_t<typename K::Bound>> {
  using Type = typename K::Bound;
};

}  // namespace detail

// K is the kernel for float.
template <typename K>
class Widened {
 public:
  using Attrs = typename opwright::detail::OpOfOthers<K>::Attributes;

  struct Bound {
    std::unique_ptr<WideCall> call;
    typename detail::BoundOf<K>::Type own;
  };

  static void Configure(opwright::KernelOptions& options) {
    if constexpr (opwright::detail::HasConfigure<K>::value) K::Configure(options);
    options.library += options.library.empty() ? "widened" : "_widened";
    options.priority = std::max(options.priority - 10, 1);  // native 16-bit loops are preferred
    options.strided = false;                                // copies are contiguous
  }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    WidePrepare wide(ctx);
    if constexpr (opwright::detail::HasPrepare<K>::value) {
      OPWRIGHT_RETURN_IF_ERROR(kernel_.Prepare(wide.context(), attrs));
    }
    OPWRIGHT_RETURN_IF_ERROR(widening_.Finish(ctx, wide));
    if constexpr (detail::HasRoundTo<Attrs>::value) {
      attrs_ = AttributesIn(widening_.dtype(), attrs);
    }
    return opwright::Status::Ok();
  }

  opwright::Status Bind(const opwright::RunContext& ctx, const Attrs& attrs, Bound& bound) const {
    bound.call = std::make_unique<WideCall>(*ctx.frame(), widening_.n_args());
    if constexpr (opwright::detail::HasBound<K>::value) {
      return kernel_.Bind(ContextOf(*bound.call), attrs, bound.own);
    } else {
      static_cast<void>(attrs);
      return opwright::Status::Ok();
    }
  }

  opwright::Status Pack(const opwright::RunContext& ctx, uint32_t arg,
                        const opwright::InputTensor& source, void* to) const {
    if constexpr (opwright::detail::HasPack<K>::value) {
      WideCall wide(*ctx.frame(), widening_.n_args());
      DLTensor tensor = *source.dlpack();
      const std::unique_ptr<float[]> copy(new float[static_cast<size_t>(source.numel())]);
      HalfRowsOf(tensor.dtype).widen(source.raw(), copy.get(), source.numel());
      tensor.dtype = opwright::DtypeOf<float>();
      tensor.data = copy.get();
      tensor.byte_offset = 0;
      return kernel_.Pack(ContextOf(wide), arg, opwright::InputTensor(&tensor), to);
    } else {
      static_cast<void>(ctx);
      static_cast<void>(source);
      static_cast<void>(to);
      return opwright::Status::Refused("argument ", arg, " was not asked for to be packed");
    }
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs& attrs, Bound& bound) const {
    widening_.Widen(ctx, *bound.call);
    if constexpr (opwright::detail::HasBound<K>::value) {
      OPWRIGHT_RETURN_IF_ERROR(kernel_.Run(ContextOf(*bound.call), Rounded(attrs), bound.own));
    } else {
      OPWRIGHT_RETURN_IF_ERROR(kernel_.Run(ContextOf(*bound.call), Rounded(attrs)));
    }
    widening_.Round(ctx, *bound.call);
    return opwright::Status::Ok();
  }

 private:
  opwright::RunContext ContextOf(WideCall& call) const {
    return opwright::RunContext(&call.frame(), widening_.n_inputs());
  }

  const Attrs& Rounded(const Attrs& attrs) const {
    if constexpr (detail::HasRoundTo<Attrs>::value) {
      return attrs_;
    } else {
      return attrs;
    }
  }

  K kernel_;
  Widening widening_;
  std::conditional_t<detail::HasRoundTo<Attrs>::value, Attrs, detail::NoBound> attrs_;
};

template <template <typename> class Kernel>
struct WidenedKernels {
  template <typename Half>
  using Of = Widened<Kernel<float>>;
};

}  // namespace opwright_cpu

// Registers Kernel<float>, a class template, for float16 and bfloat16.
#define OPWRIGHT_CPU_REGISTER_WIDENED(type, kernel)                                               \
  OPWRIGHT_REGISTRATION_(                                                                         \
      nullptr, OPWRIGHT_JOIN(widened_, __COUNTER__),                                              \
      tables->AddKernelsForOthers<opwright_cpu::WidenedKernels<kernel>::Of, OPWRIGHT_CPU_HALVES>( \
          type, "cpu"))

// Registers Kernel<float> and Kernel<double>, and Kernel<float> also for float16 and bfloat16.
#define OPWRIGHT_CPU_REGISTER_FLOATS(type, kernel)                  \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", kernel, float, double); \
  OPWRIGHT_CPU_REGISTER_WIDENED(type, kernel)

#endif  // OPWRIGHT_CPU_COMMON_WIDENED_H_
