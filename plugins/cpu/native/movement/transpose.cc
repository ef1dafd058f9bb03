#include "movement/attributes.h"
#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct TransposeKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const TransposeAttrs& attrs) {
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    const std::vector<int64_t> from = CompactStrides(shape);
    const std::vector<int64_t> to = CompactStrides(ctx.output(0).shape().dims());
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    const size_t rank = shape.size();
    std::vector<CopyAxis> axes;
    for (size_t i = 0; i < rank; ++i) {
      const size_t axis = attrs.axes.empty() ? rank - 1 - i : FrontAxis(attrs.axes[i], rank);
      axes.push_back(CopyAxis{shape[axis], from[axis] * item, to[i] * item});
    }
    copy_ = StridedCopy(item, std::move(axes));
    ctx.SetEstimate(MoveNanoseconds(copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const TransposeAttrs&) const {
    copy_.Run(Bytes(ctx.input(0)), MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("transpose", "cpu", opwright_cpu::TransposeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
