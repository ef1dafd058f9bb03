#include <cstring>

#include "indexing/attributes.h"
#include "indexing/positions.h"
#include "movement/items.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct OneHotKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const OneHotAttrs& attrs) {
    n_ = ctx.input(0).numel();
    one_ = OneOf(ctx.output(0).dtype());
    item_ = ItemBytes(ctx.output(0).dtype());
    ctx.SetEstimate(MoveNanoseconds(n_ * attrs.depth * item_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const OneHotAttrs& attrs) const {
    const Positions ids(ctx.input(0), n_);
    OPWRIGHT_RETURN_IF_ERROR(ids.Check("x", 0, attrs.depth));
    if (n_ == 0) return opwright::Status::Ok();
    char* out = MutableBytes(ctx.output(0));
    const int64_t row = attrs.depth * item_;
    ParallelFor(ctx.n_threads(), n_, kCopyGrainBytes / row + 1, 1, [&](int64_t begin, int64_t end) {
      std::memset(out + begin * row, 0, static_cast<size_t>((end - begin) * row));
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(out + i * row + ids[i] * item_, &one_, static_cast<size_t>(item_));
      }
    });
    return opwright::Status::Ok();
  }
  int64_t n_ = 0;
  int64_t item_ = 4;
  uint64_t one_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("one_hot", "cpu", opwright_cpu::OneHotKernel, int32_t, int64_t);
