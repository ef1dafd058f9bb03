// dist.unshard, as one operator or as start and wait, and dist.shard, for CUDA. These operators
// only move data.
#include <algorithm>
#include <cstdint>
#include <string>

#include "bucket_kernels.h"
#include "kernel.h"
#include "library.h"
#include "numbers.h"

namespace opwright_nccl {

using opwright::Status;

namespace {

// The shards of a process are consecutive in its lane of the bucket, where NCCL gathers them.
template <typename T>
struct UnshardBucket : CollectiveKernel {
  using Attrs = GroupAttrs;
  static constexpr const char* kWho = "dist.unshard";
  static constexpr int64_t kItem = sizeof(T);

  Status Prepare(opwright::PrepareContext& ctx, const GroupAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) n += ctx.input(0, i).numel();
    return mover.Find(device, kItem);
  }
  Status Bind(const opwright::RunContext&, const GroupAttrs&, Bucket& bucket) const {
    return BindScratch(device, group->size * n * kItem, &bucket);
  }

  Status Start(const opwright::RunContext& ctx, Bucket& bucket) const {
    const Address all = bucket.memory.address();
    const Address own = all + static_cast<Address>(group->rank * n * kItem);
    Address to = own;
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const opwright::InputTensor x = ctx.input(0, i);
      OPWRIGHT_RETURN_IF_ERROR(mover.Divide(ctx.stream<CUstream_st>(), x.raw(),
                                            reinterpret_cast<void*>(to), Layout::Flat(x.numel())));
      to += static_cast<Address>(x.numel() * kItem);
    }
    return group->Begin(ctx, kUnshard, bucket.fork, [&](Comm comm, Stream stream) {
      if (n == 0) return kSuccess;
      return Nccl().AllGather(reinterpret_cast<void*>(own), reinterpret_cast<void*>(all),
                              static_cast<size_t>(n * kItem), kTypeInt8, comm, stream);
    });
  }

  Status Finish(const opwright::RunContext& ctx, const Bucket& bucket) const {
    Address from = bucket.memory.address();
    for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
      const opwright::OutputTensor out = ctx.output(0, i);
      const int64_t length = ShardLength(out.numel(), group->size);
      const Layout layout = Layout::Shards(out.numel(), group->size, length, n);
      OPWRIGHT_RETURN_IF_ERROR(
          mover.Join(ctx.stream<CUstream_st>(), reinterpret_cast<void*>(from), out.raw(), layout));
      from += static_cast<Address>(length * kItem);
    }
    return Status::Ok();
  }

  Mover mover;
  int64_t n = 0;  // elements per lane
};

template <typename T>
using UnshardStart = StartKernel<UnshardBucket<T>>;
template <typename T>
using UnshardWhole = WholeKernel<UnshardBucket<T>>;
template <typename T>
using UnshardWait = WaitKernel;

// Copies the shard of this process, without communication.
template <typename T>
struct ShardKernel : CollectiveKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "nccl";
    options.capturable = true;
  }
  Status Prepare(opwright::PrepareContext& ctx, const GroupAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    length = ctx.output(0).numel();
    begin = std::min(group->rank * length, ctx.input(0).numel());
    layout = Layout::Shards(ctx.input(0).numel() - begin, 1, length, length);
    return mover.Find(device, sizeof(T));
  }
  Status Run(const opwright::RunContext& ctx, const GroupAttrs&) const {
    const Within within(device);
    const auto* x = static_cast<const T*>(ctx.input(0).raw());
    return mover.Divide(ctx.stream<CUstream_st>(), x + begin, ctx.output(0).raw(), layout);
  }
  Mover mover;
  Layout layout;
  int64_t length = 0;
  int64_t begin = 0;
};

}  // namespace
}  // namespace opwright_nccl

#define OPWRIGHT_NCCL_SHARDS(type, kernel) \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cuda", opwright_nccl::kernel, OPWRIGHT_NCCL_NUMBERS)
OPWRIGHT_NCCL_SHARDS("dist.unshard", UnshardWhole);
OPWRIGHT_NCCL_SHARDS("dist.unshard_start", UnshardStart);
OPWRIGHT_NCCL_SHARDS("dist.unshard_wait", UnshardWait);
OPWRIGHT_NCCL_SHARDS("dist.shard", ShardKernel);
