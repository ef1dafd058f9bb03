#include <utility>

#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

struct TileAttrs {
  std::vector<int64_t> repeats;
  OPWRIGHT_ATTRIBUTES(repeats);
};

// Every axis becomes two axes: the repeats, with a source stride of 0, and the axis of x.
template <typename T>
struct TileKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const TileAttrs& attrs) {
    const std::vector<int64_t> whole = ctx.output(0).shape().dims();
    std::vector<int64_t> shape = ctx.input(0).shape().dims();
    std::vector<int64_t> repeats = attrs.repeats;
    shape.insert(shape.begin(), whole.size() - shape.size(), 1);
    repeats.insert(repeats.begin(), whole.size() - repeats.size(), 1);
    const int64_t item = ItemBytes(ctx.output(0).dtype());
    const std::vector<int64_t> from = CompactStrides(shape);
    const std::vector<int64_t> to = CompactStrides(whole);
    std::vector<CopyAxis> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
      axes.push_back(CopyAxis{repeats[i], 0, to[i] * shape[i] * item});
      axes.push_back(CopyAxis{shape[i], from[i] * item, to[i] * item});
    }
    copy_ = StridedCopy(item, std::move(axes));
    ctx.SetEstimate(MoveNanoseconds(copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const TileAttrs&) const {
    if (copy_.bytes() > 0) {
      copy_.Run(Bytes(ctx.input(0)), MutableBytes(ctx.output(0)), ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("tile", "cpu", opwright_cpu::TileKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
