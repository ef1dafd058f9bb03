#include <utility>

#include "movement/attributes.h"
#include "movement/cut.h"
#include "movement/stream.h"
#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// The inputs are x and updates; the output may share the memory of x, so only the box is written.
template <typename T>
struct SliceScatterKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const SliceAttrs& attrs) {
    const std::vector<int64_t> whole = ctx.output(0).shape().dims();
    const std::vector<int64_t> shape = ctx.input(1).shape().dims();
    const int64_t item = ItemBytes(ctx.output(0).dtype());
    const Box box = BoxOf(CutOf(attrs, whole), whole, shape, item);
    const std::vector<int64_t> from = CompactStrides(shape);
    std::vector<CopyAxis> axes;
    axes.reserve(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      axes.push_back(CopyAxis{shape[i], from[i] * item, box.strides[i]});
    }
    offset_ = box.offset;
    copy_ = StridedCopy(item, std::move(axes));
    bytes_ = ctx.output(0).numel() * item;
    ctx.SetEstimate(MoveNanoseconds(bytes_ + copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const SliceAttrs&) const {
    if (bytes_ == 0) return opwright::Status::Ok();
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    if (x != out) CopyBytes(x, out, bytes_, ctx.n_threads());
    if (copy_.bytes() > 0) copy_.Run(Bytes(ctx.input(1)), out + offset_, ctx.n_threads());
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("slice_scatter", "cpu", opwright_cpu::SliceScatterKernel,
                             opwright::AnyDtype);
