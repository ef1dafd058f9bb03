// flip, rot90 and roll: copies of boxes of a tensor to other positions.
#include <utility>

#include "movement/strided_copy.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

struct FlipAttrs {
  std::vector<int64_t> axis;
  OPWRIGHT_ATTRIBUTES(axis);
};

struct Rot90Attrs {
  int64_t k;
  std::vector<int64_t> axes;
  OPWRIGHT_ATTRIBUTES(k, axes);
};

struct RollAttrs {
  std::vector<int64_t> shift;
  std::vector<int64_t> axis;
  OPWRIGHT_ATTRIBUTES(shift, axis);
};

template <typename T>
struct FlipKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const FlipAttrs& attrs) {
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    const std::vector<int64_t> strides = CompactStrides(shape);
    std::vector<bool> turned(shape.size(), attrs.axis.empty());
    for (const int64_t axis : attrs.axis) {
      if (!shape.empty()) turned[FrontAxis(axis, shape.size())] = true;
    }
    std::vector<CopyAxis> axes;
    axes.reserve(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t step = strides[i] * item;
      axes.push_back(CopyAxis{shape[i], turned[i] ? -step : step, step});
      if (turned[i]) offset_ += (shape[i] - 1) * step;
    }
    copy_ = StridedCopy(item, std::move(axes));
    ctx.SetEstimate(MoveNanoseconds(copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const FlipAttrs&) const {
    if (copy_.bytes() > 0) {
      copy_.Run(Bytes(ctx.input(0)) + offset_, MutableBytes(ctx.output(0)), ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
  int64_t offset_ = 0;
};

template <typename T>
struct Rot90Kernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Rot90Attrs& attrs) {
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    const int64_t item = ItemBytes(ctx.input(0).dtype());
    const std::vector<int64_t> from = CompactStrides(shape);
    const std::vector<int64_t> to = CompactStrides(ctx.output(0).shape().dims());
    const int64_t turns = (attrs.k % 4 + 4) % 4;
    const size_t first = FrontAxis(attrs.axes[0], shape.size());
    const size_t second = FrontAxis(attrs.axes[1], shape.size());
    std::vector<CopyAxis> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
      // Determines which axis of x becomes axis i of out, and whether it is reversed. A reversed
      // row is read backward, other reversed axes are written backward, so reads stay contiguous.
      const bool is_turned = turns % 2 == 1 && (i == first || i == second);
      const size_t axis = !is_turned ? i : i == first ? second : first;
      const bool is_back = (axis == second && (turns == 1 || turns == 2)) ||
                           (axis == first && (turns == 2 || turns == 3));
      const bool is_row = i + 1 == shape.size();
      CopyAxis copied{shape[axis], from[axis] * item, to[i] * item};
      if (is_back) {
        int64_t& step = is_row ? copied.source : copied.destination;
        (is_row ? from_ : to_) += (shape[axis] - 1) * step;
        step = -step;
      }
      axes.push_back(copied);
    }
    copy_ = StridedCopy(item, std::move(axes));
    ctx.SetEstimate(MoveNanoseconds(copy_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const Rot90Attrs&) const {
    if (copy_.bytes() > 0) {
      copy_.Run(Bytes(ctx.input(0)) + from_, MutableBytes(ctx.output(0)) + to_, ctx.n_threads());
    }
    return opwright::Status::Ok();
  }
  StridedCopy copy_;
  int64_t from_ = 0, to_ = 0;
};

template <typename T>
struct RollKernel {
  // A box that is moved as a whole; offsets are in bytes.
  struct Move {
    StridedCopy copy;
    int64_t source;
    int64_t destination;
  };

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const RollAttrs& attrs) {
    std::vector<int64_t> shape = ctx.input(0).shape().dims();
    const int64_t numel = ctx.input(0).numel();
    if (attrs.axis.empty() || shape.empty()) shape = {numel};
    item_ = ItemBytes(ctx.input(0).dtype());
    bytes_ = numel * item_;
    ctx.SetEstimate(MoveNanoseconds(bytes_, ctx.n_threads()));
    if (bytes_ == 0) return opwright::Status::Ok();
    std::vector<int64_t> shift(shape.size(), 0);
    for (size_t i = 0; i < attrs.shift.size(); ++i) {
      const size_t axis = attrs.axis.empty() ? 0 : FrontAxis(attrs.axis[i], shape.size());
      const int64_t by = attrs.shift[i] % shape[axis];
      shift[axis] = by < 0 ? by + shape[axis] : by;
    }
    AddMoves(shape, shift, 0, {}, 0, 0);
    return opwright::Status::Ok();
  }

  // Each rolled axis splits a box into two boxes. One moves toward the end, the other wraps around
  // to the front.
  void AddMoves(const std::vector<int64_t>& shape, const std::vector<int64_t>& shift, size_t axis,
                std::vector<CopyAxis> axes, int64_t source, int64_t destination) {
    if (axis == shape.size()) {
      moves_.push_back(Move{StridedCopy(item_, std::move(axes)), source, destination});
      return;
    }
    const int64_t step = Product(shape, axis + 1, shape.size()) * item_;
    const int64_t by = shift[axis];
    const int64_t kept = shape[axis] - by;
    std::vector<CopyAxis> rest = axes;
    axes.push_back(CopyAxis{kept, step, step});
    AddMoves(shape, shift, axis + 1, std::move(axes), source, destination + by * step);
    if (by == 0) return;
    rest.push_back(CopyAxis{by, step, step});
    AddMoves(shape, shift, axis + 1, std::move(rest), source + kept * step, destination);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const RollAttrs&) const {
    if (bytes_ == 0) return opwright::Status::Ok();
    const char* x = Bytes(ctx.input(0));
    char* out = MutableBytes(ctx.output(0));
    ParallelParts(ctx.n_threads(), bytes_, [&](int32_t thread, int32_t threads) {
      for (const Move& move : moves_) {
        move.copy.RunPart(x + move.source, out + move.destination, thread, threads);
      }
    });
    return opwright::Status::Ok();
  }
  int64_t item_ = 1;
  int64_t bytes_ = 0;
  std::vector<Move> moves_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("flip", "cpu", opwright_cpu::FlipKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("rot90", "cpu", opwright_cpu::Rot90Kernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
OPWRIGHT_REGISTER_KERNEL_FOR("roll", "cpu", opwright_cpu::RollKernel, opwright::AnyDtype,
                             opwright::NarrowDtypes);
