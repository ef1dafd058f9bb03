#include "common/attributes.h"
#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// Reinterprets the data with a different shape; copies only if input and output memory differ.
template <typename T>
struct ReshapeKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.may_reuse = {{"out", "x"}};
  }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    bytes_ = ctx.input(0).numel() * ItemBytes(ctx.input(0).dtype());
    ctx.SetEstimate(MoveNanoseconds(bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    if (bytes_ > 0) {
      CopyBytes(Bytes(ctx.input(0)), MutableBytes(ctx.output(0)), bytes_, ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  int64_t bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("reshape", "cpu", opwright_cpu::ReshapeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("reshape_like", "cpu", opwright_cpu::ReshapeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("squeeze", "cpu", opwright_cpu::ReshapeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("unsqueeze", "cpu", opwright_cpu::ReshapeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("flatten", "cpu", opwright_cpu::ReshapeKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
