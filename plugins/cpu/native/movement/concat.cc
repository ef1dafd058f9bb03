#include <utility>

#include "common/attributes.h"
#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// A tensor and its consecutive parts along an axis. concat writes the complete tensor; split and
// the gradient of concat write the parts.
class Parts {
 public:
  void Begin(const std::vector<int64_t>& whole, int64_t axis, int64_t item_bytes) {
    axis_ = FrontAxis(axis, whole.size());
    length_ = whole[axis_];
    outer_ = Product(whole, 0, axis_);
    inner_ = Product(whole, axis_ + 1, whole.size()) * item_bytes;
    row_ = whole[axis_] * inner_;
  }

  // Adds the next part; it is copied into the whole tensor if `into` is true, otherwise from it.
  void Add(const std::vector<int64_t>& part, bool into) { AddLines(part[axis_], into); }

  // Adds every line along the axis as a separate part.
  void AddEach(bool into) {
    for (int64_t i = 0; i < length_; ++i) AddLines(1, into);
  }

  int64_t bytes() const { return total_; }

  struct Copy {
    StridedCopy copy;
    int64_t offset;  // byte offset of the part in the whole tensor
  };

  // Calls function(index, copy, thread, n_threads) for each part in every thread; each call copies
  // the thread's share of the part.
  template <typename Function>
  void Run(int32_t n_threads, const Function& function) const {
    ParallelParts(n_threads, total_, [&](int32_t thread, int32_t threads) {
      for (uint32_t i = 0; i < copies_.size(); ++i) function(i, copies_[i], thread, threads);
    });
  }

 private:
  void AddLines(int64_t n_lines, bool into) {
    const int64_t bytes = n_lines * inner_;
    CopyAxis rows{outer_, bytes, row_};
    if (!into) std::swap(rows.source, rows.destination);
    copies_.push_back(Copy{StridedCopy(1, {rows, CopyAxis{bytes, 1, 1}}), offset_});
    total_ += copies_.back().copy.bytes();
    offset_ += bytes;
  }

  size_t axis_ = 0;
  int64_t length_ = 1;
  int64_t outer_ = 1;
  int64_t inner_ = 1;
  int64_t row_ = 1;
  int64_t offset_ = 0;
  int64_t total_ = 0;
  std::vector<Copy> copies_;
};

// The kernel of concat, and of stack, whose output has one line per input.
template <typename T, bool kStack>
struct JoinKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const opwright::Meta out = ctx.output(0);
    parts_.Begin(out.shape().dims(), attrs.axis, ItemBytes(out.dtype()));
    if (kStack) parts_.AddEach(true);
    for (uint32_t i = 0; !kStack && i < ctx.input_count(0); ++i) {
      parts_.Add(ctx.input(0, i).shape().dims(), true);
    }
    ctx.SetEstimate(MoveNanoseconds(parts_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    char* out = MutableBytes(ctx.output(0));
    parts_.Run(ctx.n_threads(),
               [&](uint32_t i, const Parts::Copy& part, int32_t thread, int32_t threads) {
                 part.copy.RunPart(Bytes(ctx.input(0, i)), out + part.offset, thread, threads);
               });
    return opwright::Status::Ok();
  }
  Parts parts_;
};

// The kernel of split, and of unstack, whose outputs lack the axis.
template <typename T, bool kStack>
struct CutKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const opwright::Meta x = ctx.input(0);
    parts_.Begin(x.shape().dims(), attrs.axis, ItemBytes(x.dtype()));
    if (kStack) parts_.AddEach(false);
    for (uint32_t i = 0; !kStack && i < ctx.output_count(0); ++i) {
      parts_.Add(ctx.output(0, i).shape().dims(), false);
    }
    ctx.SetEstimate(MoveNanoseconds(parts_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const char* x = Bytes(ctx.input(0));
    parts_.Run(
        ctx.n_threads(), [&](uint32_t i, const Parts::Copy& part, int32_t thread, int32_t threads) {
          part.copy.RunPart(x + part.offset, MutableBytes(ctx.output(0, i)), thread, threads);
        });
    return opwright::Status::Ok();
  }
  Parts parts_;
};

// The inputs are x (shapes only) and out_grad; there is one output per x.
template <typename T>
struct ConcatGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    std::vector<int64_t> whole = ctx.input(0).shape().dims();
    const size_t axis = FrontAxis(attrs.axis, whole.size());
    whole[axis] = 0;
    for (uint32_t i = 0; i < ctx.input_count(0); ++i)
      whole[axis] += ctx.input(0, i).shape().dims()[axis];
    parts_.Begin(whole, attrs.axis, ItemBytes(ctx.input(0).dtype()));
    for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
      parts_.Add(ctx.output(0, i).shape().dims(), false);
    }
    ctx.SetEstimate(MoveNanoseconds(parts_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const char* whole = Bytes(ctx.input(1));
    parts_.Run(
        ctx.n_threads(), [&](uint32_t i, const Parts::Copy& part, int32_t thread, int32_t threads) {
          part.copy.RunPart(whole + part.offset, MutableBytes(ctx.output(0, i)), thread, threads);
        });
    return opwright::Status::Ok();
  }
  Parts parts_;
};

template <typename T>
using ConcatKernel = JoinKernel<T, false>;
template <typename T>
using StackKernel = JoinKernel<T, true>;
template <typename T>
using SplitKernel = CutKernel<T, false>;
template <typename T>
using UnstackKernel = CutKernel<T, true>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("concat", "cpu", opwright_cpu::ConcatKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("split", "cpu", opwright_cpu::SplitKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("concat_grad", "cpu", opwright_cpu::ConcatGradKernel,
                             opwright::AnyDtype, opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("stack", "cpu", opwright_cpu::StackKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("unstack", "cpu", opwright_cpu::UnstackKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
