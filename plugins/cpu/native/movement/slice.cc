#include "movement/attributes.h"
#include "movement/border.h"
#include "movement/cut.h"
#include "movement/stream.h"
#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct SliceKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const SliceAttrs& attrs) {
    const std::vector<int64_t> whole = ctx.input(0).shape().dims();
    const std::vector<int64_t> shape = ctx.output(0).shape().dims();
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    const Box box = BoxOf(CutOf(attrs, whole), whole, shape, item);
    const std::vector<int64_t> to = CompactStrides(shape);
    std::vector<CopyAxis> axes;
    axes.reserve(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      axes.push_back(CopyAxis{shape[i], box.strides[i], to[i] * item});
    }
    offset_ = box.offset;
    copy_ = StridedCopy(item, std::move(axes));
    ctx.SetEstimate(MoveNanoseconds(copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const SliceAttrs&) const {
    if (copy_.bytes() > 0) {
      copy_.Run(Bytes(ctx.input(0)) + offset_, MutableBytes(ctx.output(0)), ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
  int64_t offset_ = 0;
};

// The inputs are x (its shape only) and out_grad; the output x_grad is 0 outside the slice.
template <typename T>
struct SliceGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const SliceAttrs& attrs) {
    const opwright::Meta out = ctx.output(0);
    const std::vector<int64_t> whole = out.shape().dims();
    const int64_t item = ItemBytes(out.dtype());
    bytes_ = out.numel() * item;
    ctx.SetEstimate(MoveNanoseconds(bytes_, ctx.n_threads()));
    const std::vector<int64_t> shape = ctx.input(1).shape().dims();
    if (ctx.input(1).numel() == 0) return opwright::Status::Ok();
    const Cut cut = CutOf(attrs, whole);
    bool dense = true;
    for (size_t i = 0; i < whole.size(); ++i) dense = dense && (cut.step[i] == 1 || shape[i] == 1);
    if (dense) {
      border_ =
          Border(BorderMode::kConstant, item, shape, cut.start, whole, 0, CompactStrides(shape));
      kind_ = Kind::kBorder;
      return opwright::Status::Ok();
    }
    const Box box = BoxOf(cut, whole, shape, item);
    const std::vector<int64_t> from = CompactStrides(shape);
    std::vector<CopyAxis> axes;
    axes.reserve(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      axes.push_back(CopyAxis{shape[i], from[i] * item, box.strides[i]});
    }
    offset_ = box.offset;
    copy_ = StridedCopy(item, std::move(axes));
    kind_ = Kind::kScattered;
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const SliceAttrs&) const {
    if (bytes_ == 0) return opwright::Status::Ok();
    char* x_grad = MutableBytes(ctx.output(0));
    if (kind_ == Kind::kBorder) {
      border_.Run(Bytes(ctx.input(1)), x_grad, ctx.n_threads());
      return opwright::Status::Ok();
    }
    ZeroBytes(x_grad, bytes_, ctx.n_threads());
    if (kind_ == Kind::kScattered) {
      copy_.Run(Bytes(ctx.input(1)), x_grad + offset_, ctx.n_threads());
    }
    return opwright::Status::Ok();
  }

  enum class Kind { kZero, kBorder, kScattered };
  Kind kind_ = Kind::kZero;
  Border border_;
  StridedCopy copy_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("slice", "cpu", opwright_cpu::SliceKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("slice_grad", "cpu", opwright_cpu::SliceGradKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
