// Kernels of bucketed collectives, as start and wait operators or as one operator.
#ifndef OPWRIGHT_NCCL_BUCKET_KERNELS_H_
#define OPWRIGHT_NCCL_BUCKET_KERNELS_H_

#include <cstdint>

#include "kernel.h"

namespace opwright_nccl {

// The start operator. `Kind` has a name, kWho, and functions that enqueue work: Start for the
// collective, and Finish for what follows it.
template <typename Kind>
struct StartKernel : Kind {
  using Bound = Bucket;
  opwright::Status Run(const opwright::RunContext& ctx, const typename Kind::Attrs&,
                       Bucket& bucket) const {
    KeepBucket(ctx.output(0).raw(), &bucket);
    bucket.unpack = [this, &bucket](const opwright::RunContext& run) {
      return Finish(run, bucket);
    };
    return this->Meet(Kind::kWho, ctx, [&] { return Start(ctx, bucket); });
  }

 protected:
  opwright::Status Start(const opwright::RunContext& ctx, Bucket& bucket) const {
    // The previous run failed before its wait.
    if (bucket.is_under_way) OPWRIGHT_RETURN_IF_ERROR(Group::End(ctx, bucket.fork));
    bucket.is_under_way = true;
    return Kind::Start(ctx, bucket);
  }
  opwright::Status Finish(const opwright::RunContext& ctx, Bucket& bucket) const {
    OPWRIGHT_RETURN_IF_ERROR(Group::End(ctx, bucket.fork));
    bucket.is_under_way = false;
    return Kind::Finish(ctx, bucket);
  }
};

// A kernel for one tensor, without buckets.
template <typename Kind>
struct WholeKernel : StartKernel<Kind> {
  opwright::Status Run(const opwright::RunContext& ctx, const typename Kind::Attrs&,
                       Bucket& bucket) const {
    return this->Meet(Kind::kWho, ctx, [&]() -> opwright::Status {
      OPWRIGHT_RETURN_IF_ERROR(this->StartKernel<Kind>::Start(ctx, bucket));
      return this->StartKernel<Kind>::Finish(ctx, bucket);
    });
  }
};

// The wait operator, whose second input is the handle.
struct WaitKernel {
  static void Configure(opwright::KernelOptions& options) { CollectiveKernel::Configure(options); }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    if (FindGroup("world") == nullptr) {
      return opwright::Status::Unsupported("processes that NCCL connects");
    }
    device = ctx.device_state();
    if (Services().is_blocking(device) != 0) ctx.ForbidCapture();
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const Bucket* bucket = FindBucket(ctx.input(1).raw());
    OPWRIGHT_ENFORCE(bucket != nullptr, "a wait must follow its start");
    const Within within(device);
    return bucket->unpack(ctx);
  }
  void* device = nullptr;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_BUCKET_KERNELS_H_
