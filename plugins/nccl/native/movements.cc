// dist.all_gather, all_to_all, broadcast and barrier for CUDA. These operators only move data.
#include <cstdint>
#include <string>

#include "kernel.h"
#include "library.h"
#include "numbers.h"

namespace opwright_nccl {

using opwright::Status;

namespace {

struct AxisAttrs {
  std::string group;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(group, axis);
};
struct RootAttrs {
  std::string group;
  int64_t root;
  OPWRIGHT_ATTRIBUTES(group, root);
};

// The workspace has `n_buffers` buffers with the size of the partitioned tensor, unless the tensor
// already has the layout of the parts.
struct PartsKernel : CollectiveKernel {
  using Bound = Scratch;
  Status PrepareParts(opwright::PrepareContext& ctx, const AxisAttrs& attrs,
                      const opwright::Meta& whole, int64_t n_buffers) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    layout = Layout::Of(whole.shape(), attrs.axis, group->size);
    item = whole.dtype().bits / 8;
    if (layout.is_whole()) return Status::Ok();
    ctx.SetWorkspace(static_cast<uint64_t>(n_buffers * bytes()));
    return mover.Find(device, item);
  }
  Status Bind(const opwright::RunContext&, const AxisAttrs&, Scratch& scratch) const {
    return scratch.fork.Make(device);
  }
  int64_t bytes() const { return layout.n * item; }
  size_t part_bytes() const { return static_cast<size_t>(layout.part() * item); }

  Layout layout;
  int64_t item = 1;
  Mover mover;
};

template <typename T>
struct AllGatherKernel : PartsKernel {
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    return PrepareParts(ctx, attrs, ctx.output(0), 1);
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, Scratch& scratch) const {
    return Meet("dist.all_gather", ctx, [&]() -> Status {
      void* out = ctx.output(0).raw();
      void* parts = layout.is_whole() ? out : ctx.workspace();
      OPWRIGHT_RETURN_IF_ERROR(Exchange(ctx, kAllGather, scratch.fork, [&](Comm comm, Stream own) {
        if (bytes() == 0) return kSuccess;
        return Nccl().AllGather(ctx.input(0).raw(), parts, part_bytes(), kTypeInt8, comm, own);
      }));
      if (layout.is_whole()) return Status::Ok();
      return mover.Join(ctx.stream<CUstream_st>(), parts, out, layout);
    });
  }
};

template <typename T>
struct AllToAllKernel : PartsKernel {
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    return PrepareParts(ctx, attrs, ctx.input(0), 2);
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, Scratch& scratch) const {
    return Meet("dist.all_to_all", ctx, [&]() -> Status {
      auto* stream = ctx.stream<CUstream_st>();
      const bool is_whole = layout.is_whole();
      const void* x = ctx.input(0).raw();
      void* out = ctx.output(0).raw();
      void* sent = ctx.workspace();
      void* received = is_whole ? out : ctx.workspace<char>() + bytes();
      if (!is_whole) OPWRIGHT_RETURN_IF_ERROR(mover.Divide(stream, x, sent, layout));
      OPWRIGHT_RETURN_IF_ERROR(Exchange(ctx, kAllToAll, scratch.fork, [&](Comm comm, Stream own) {
        if (bytes() == 0) return kSuccess;
        return Nccl().AlltoAll(is_whole ? x : sent, received, part_bytes(), kTypeInt8, comm, own);
      }));
      return is_whole ? Status::Ok() : mover.Join(stream, received, out, layout);
    });
  }
};

template <typename T>
struct BroadcastKernel : CollectiveKernel {
  using Bound = Scratch;
  Status Prepare(opwright::PrepareContext& ctx, const RootAttrs& attrs) {
    bytes = static_cast<size_t>(BytesOf(ctx.input(0)));
    return PrepareGroup(ctx, attrs.group);
  }
  Status Bind(const opwright::RunContext&, const RootAttrs&, Scratch& scratch) const {
    return scratch.fork.Make(device);
  }
  Status Run(const opwright::RunContext& ctx, const RootAttrs& attrs, Scratch& scratch) const {
    return Meet("dist.broadcast", ctx, [&] {
      return Exchange(ctx, kBroadcast, scratch.fork, [&](Comm comm, Stream own) {
        if (bytes == 0) return kSuccess;
        return Nccl().Broadcast(ctx.input(0).raw(), ctx.output(0).raw(), bytes, kTypeInt8,
                                static_cast<int>(attrs.root), comm, own);
      });
    });
  }
  size_t bytes = 0;
};

template <typename T>
struct BarrierKernel : CollectiveKernel {
  using Bound = Scratch;
  Status Prepare(opwright::PrepareContext& ctx, const GroupAttrs& attrs) {
    bytes = static_cast<size_t>(BytesOf(ctx.input(0)));
    return PrepareGroup(ctx, attrs.group);
  }
  Status Bind(const opwright::RunContext&, const GroupAttrs&, Scratch& scratch) const {
    return BindScratch(device, sizeof(int32_t), &scratch);
  }
  // Reduces a dummy value, since a reduction completes only when all processes have joined it.
  Status Run(const opwright::RunContext& ctx, const GroupAttrs&, Scratch& scratch) const {
    return Meet("dist.barrier", ctx, [&]() -> Status {
      auto* number = reinterpret_cast<void*>(scratch.memory.address());
      OPWRIGHT_RETURN_IF_ERROR(Exchange(ctx, kBarrier, scratch.fork, [&](Comm comm, Stream own) {
        return Nccl().AllReduce(number, number, 1, kTypeInt32, kMax, comm, own);
      }));
      if (bytes == 0) return Status::Ok();
      return CheckCuda(Cuda().MemcpyDtoDAsync(reinterpret_cast<Address>(ctx.output(0).raw()),
                                              reinterpret_cast<Address>(ctx.input(0).raw()), bytes,
                                              ctx.stream<CUstream_st>()),
                       "a copy");
    });
  }
  size_t bytes = 0;
};

}  // namespace
}  // namespace opwright_nccl

OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_gather", "cuda", opwright_nccl::AllGatherKernel,
                             OPWRIGHT_NCCL_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_to_all", "cuda", opwright_nccl::AllToAllKernel,
                             OPWRIGHT_NCCL_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.broadcast", "cuda", opwright_nccl::BroadcastKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.barrier", "cuda", opwright_nccl::BarrierKernel,
                             opwright::AnyDtype);
OPWRIGHT_PLUGIN("nccl");
