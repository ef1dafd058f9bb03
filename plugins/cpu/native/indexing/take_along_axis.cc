#include <atomic>
#include <utility>

#include "common/attributes.h"
#include "common/widened.h"
#include "indexing/axis_walk.h"
#include "movement/stream.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

// Returns the strides, in items, of a compact tensor that broadcasts along axes of length 1.
std::vector<int64_t> RepeatedStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides = CompactStrides(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) strides[i] = 0;
  }
  return strides;
}

AxisWalk WalkOf(const std::vector<int64_t>& x, const std::vector<int64_t>& index,
                const std::vector<int64_t>& out, int64_t along) {
  const size_t axis = FrontAxis(along, x.size());
  const std::vector<int64_t> x_strides = RepeatedStrides(x);
  const std::vector<int64_t> index_strides = RepeatedStrides(index);
  const std::vector<int64_t> strides = CompactStrides(out);
  std::vector<WalkAxis> axes;
  for (size_t i = 0; i < x.size(); ++i) {
    axes.push_back(WalkAxis{out[i], x_strides[i], index_strides[i], strides[i]});
  }
  return AxisWalk(std::move(axes), axis, x[axis]);
}

template <typename Word, typename Index>
bool TakeWords(const AxisWalk& walk, const AxisWalk::Share& share, const void* x,
               const Index* index, void* out) {
  const auto* from = static_cast<const Word*>(x);
  auto* to = static_cast<Word*>(out);
  return walk.Visit<false>(index, share,
                           [=](int64_t place, int64_t other) { to[other] = from[place]; });
}

template <typename Index>
bool Take(int64_t item, const AxisWalk& walk, const AxisWalk::Share& share, const void* x,
          const Index* index, void* out) {
  if (item == 1) return TakeWords<uint8_t>(walk, share, x, index, out);
  if (item == 2) return TakeWords<uint16_t>(walk, share, x, index, out);
  if (item == 4) return TakeWords<uint32_t>(walk, share, x, index, out);
  return TakeWords<uint64_t>(walk, share, x, index, out);
}

template <typename T>
struct TakeAlongAxisKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const std::vector<int64_t> x = IndexedDims(ctx.input(0).shape());
    walk_ = WalkOf(x, IndexedDims(ctx.input(1).shape()), IndexedDims(ctx.output(0).shape()),
                   attrs.axis);
    count_ = x[FrontAxis(attrs.axis, x.size())];
    n_index_ = ctx.input(1).numel();
    item_ = ItemBytes(ctx.input(0).dtype());
    bytes_ = ctx.output(0).numel() * item_;
    ctx.SetEstimate(MoveNanoseconds(4 * bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const Positions index(ctx.input(1), n_index_);
    if (bytes_ == 0) return index.Check("index", -count_, count_);
    std::atomic<bool> is_right{true};
    index.Visit([&](const auto* data) {
      ParallelParts(ctx.n_threads(), 4 * bytes_, [&](int32_t thread, int32_t threads) {
        const AxisWalk::Share share = walk_.ShareOfOther(thread, threads);
        if (!Take(item_, walk_, share, ctx.input(0).raw(), data, ctx.output(0).raw())) {
          is_right = false;
        }
      });
    });
    return is_right ? opwright::Status::Ok() : index.Check("index", -count_, count_);
  }
  AxisWalk walk_;
  int64_t count_ = 0;
  int64_t n_index_ = 0;
  int64_t item_ = 1;
  int64_t bytes_ = 0;
};

// The inputs are x (its shape only), index and out_grad; the output is x_grad.
template <typename T>
struct TakeAlongAxisGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    const std::vector<int64_t> x = IndexedDims(ctx.output(0).shape());
    walk_ =
        WalkOf(x, IndexedDims(ctx.input(1).shape()), IndexedDims(ctx.input(2).shape()), attrs.axis);
    count_ = x[FrontAxis(attrs.axis, x.size())];
    n_index_ = ctx.input(1).numel();
    const auto item = static_cast<int64_t>(sizeof(T));
    bytes_ = ctx.output(0).numel() * item;
    added_bytes_ = ctx.input(2).numel() * item;
    ctx.SetEstimate(MoveNanoseconds(bytes_ + 4 * added_bytes_, ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const AxisAttrs&) const {
    const Positions index(ctx.input(1), n_index_);
    if (bytes_ > 0) ZeroBytes(MutableBytes(ctx.output(0)), bytes_, ctx.n_threads());
    if (added_bytes_ == 0 || bytes_ == 0) return index.Check("index", -count_, count_);
    T* x_grad = ctx.output(0).data<T>();
    const T* grad = ctx.input(2).data<T>();
    std::atomic<bool> is_right{true};
    index.Visit([&](const auto* data) {
      ParallelParts(ctx.n_threads(), 4 * added_bytes_, [&](int32_t thread, int32_t threads) {
        const auto add = [=](int64_t place, int64_t other) { x_grad[place] += grad[other]; };
        if (!walk_.Visit<false>(data, walk_.ShareOfX(thread, threads), add)) is_right = false;
      });
    });
    return is_right ? opwright::Status::Ok() : index.Check("index", -count_, count_);
  }
  AxisWalk walk_;
  int64_t count_ = 0;
  int64_t n_index_ = 0;
  int64_t bytes_ = 0;
  int64_t added_bytes_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("take_along_axis", "cpu", opwright_cpu::TakeAlongAxisKernel,
                             opwright::AnyDtype, opwright::NarrowDtypes);
OPWRIGHT_CPU_REGISTER_FLOATS("take_along_axis_grad", opwright_cpu::TakeAlongAxisGradKernel);
