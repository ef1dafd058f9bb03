// dist.all_reduce, at once or as a start and a wait, and dist.reduce_scatter, for CUDA.
#include <cstdint>
#include <string>

#include "kernel.h"
#include "library.h"
#include "numbers.h"

namespace opwright_nccl {

using opwright::Status;

namespace {

struct ScatterAttrs {
  std::string group;
  std::string reduce;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(group, reduce, axis);
};

template <typename T>
struct StartKernel : CollectiveKernel {
  using Bound = Bucket;
  Status Prepare(opwright::PrepareContext& ctx, const ReduceAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) n += ctx.input(0, i).numel();
    const bool is_mean = attrs.reduce == "mean";  // of others the number of rows is no weight
    is_weighted = is_mean && attrs.unequal_rows == "weight" && ctx.has_input(1);
    if (is_weighted) rows = static_cast<double>(ctx.input(1).shape().dims()[0]);
    return numbers.Find(device, opwright::DtypeOf<T>(), attrs.reduce, is_weighted);
  }
  Status Bind(const opwright::RunContext&, const ReduceAttrs&, Bucket& bucket) const {
    return BindScratch(device, (n + (is_weighted ? 1 : 0)) * numbers.item(), &bucket);
  }
  Status Run(const opwright::RunContext& ctx, const ReduceAttrs&, Bucket& bucket) const {
    KeepBucket(ctx.output(0).raw(), &bucket);
    return Meet("dist.all_reduce", ctx, [&] { return Start(ctx, bucket); });
  }

  Status Start(const opwright::RunContext& ctx, Bucket& bucket) const {
    auto* stream = ctx.stream<CUstream_st>();
    // Of a run that failed before it waited.
    if (bucket.is_under_way) OPWRIGHT_RETURN_IF_ERROR(Group::End(ctx, bucket.fork));
    Address to = bucket.memory.address();
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const opwright::InputTensor x = ctx.input(0, i);
      OPWRIGHT_RETURN_IF_ERROR(numbers.Pack(stream, x.raw(), to, Layout::Flat(x.numel()), rows));
      to += static_cast<Address>(x.numel() * numbers.item());
    }
    // The weights are summed as one more number.
    if (is_weighted) OPWRIGHT_RETURN_IF_ERROR(numbers.Put(stream, to, rows));
    auto* memory = reinterpret_cast<void*>(bucket.memory.address());
    const auto count = static_cast<size_t>(n + (is_weighted ? 1 : 0));
    bucket.is_under_way = true;
    bucket.unpack = [this, &bucket](const opwright::RunContext& run) {
      return Finish(run, bucket);
    };
    return group->Begin(ctx, kAllReduce, bucket.fork, [&](Comm comm, Stream own) {
      if (count == 0) return kSuccess;
      return Nccl().AllReduce(memory, memory, count, numbers.type(), numbers.operation(), comm,
                              own);
    });
  }

  Status Finish(const opwright::RunContext& ctx, Bucket& bucket) const {
    OPWRIGHT_RETURN_IF_ERROR(Group::End(ctx, bucket.fork));
    bucket.is_under_way = false;
    Address from = bucket.memory.address();
    const Address sum = is_weighted ? from + static_cast<Address>(n * numbers.item()) : 0;
    for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
      const opwright::OutputTensor out = ctx.output(0, i);
      OPWRIGHT_RETURN_IF_ERROR(numbers.Unpack(ctx.stream<CUstream_st>(), from, out.raw(),
                                              Layout::Flat(out.numel()), sum, group->size));
      from += static_cast<Address>(out.numel() * numbers.item());
    }
    return Status::Ok();
  }

  Numbers numbers;
  int64_t n = 0;
  bool is_weighted = false;
  double rows = 1;
};

// One tensor, where no pass has made buckets.
template <typename T>
struct AllReduceKernel : StartKernel<T> {
  Status Run(const opwright::RunContext& ctx, const ReduceAttrs&, Bucket& bucket) const {
    return this->Meet("dist.all_reduce", ctx, [&]() -> Status {
      OPWRIGHT_RETURN_IF_ERROR(this->Start(ctx, bucket));
      return this->Finish(ctx, bucket);
    });
  }
};

template <typename T>
struct WaitKernel {
  static void Configure(opwright::KernelOptions& options) { CollectiveKernel::Configure(options); }
  Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    if (FindGroup("world") == nullptr) {
      return Status::Unsupported("processes that NCCL connects");
    }
    device = ctx.device_state();
    if (Services().is_blocking(device) != 0) ctx.ForbidCapture();
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const Bucket* bucket = FindBucket(ctx.input(1).raw());
    OPWRIGHT_ENFORCE(bucket != nullptr, "dist.all_reduce: a wait must follow its start");
    const Within within(device);
    return bucket->unpack(ctx);
  }
  void* device = nullptr;
};

template <typename T>
struct ReduceScatterKernel : CollectiveKernel {
  using Bound = Scratch;
  Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    layout = Layout::Of(ctx.input(0).shape(), attrs.axis, group->size);
    return numbers.Find(device, opwright::DtypeOf<T>(), attrs.reduce, false);
  }
  Status Bind(const opwright::RunContext&, const ScatterAttrs&, Scratch& scratch) const {
    return BindScratch(device, (layout.n() + layout.part()) * numbers.item(), &scratch);
  }
  Status Run(const opwright::RunContext& ctx, const ScatterAttrs&, Scratch& scratch) const {
    return Meet("dist.reduce_scatter", ctx, [&]() -> Status {
      auto* stream = ctx.stream<CUstream_st>();
      const Address all = scratch.memory.address();
      const Address own = all + static_cast<Address>(layout.n() * numbers.item());
      OPWRIGHT_RETURN_IF_ERROR(numbers.Pack(stream, ctx.input(0).raw(), all, layout, 1));
      OPWRIGHT_RETURN_IF_ERROR(
          Exchange(ctx, kReduceScatter, scratch.fork, [&](Comm comm, Stream of_group) {
            if (layout.part() == 0) return kSuccess;
            return Nccl().ReduceScatter(reinterpret_cast<void*>(all), reinterpret_cast<void*>(own),
                                        static_cast<size_t>(layout.part()), numbers.type(),
                                        numbers.operation(), comm, of_group);
          }));
      return numbers.Unpack(stream, own, ctx.output(0).raw(), Layout::Flat(layout.part()), 0,
                            group->size);
    });
  }
  Layout layout;
  Numbers numbers;
};

}  // namespace
}  // namespace opwright_nccl

#define OPWRIGHT_NCCL_NUMBERS opwright::Float16, opwright::BFloat16, float, double, int32_t, int64_t
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce", "cuda", opwright_nccl::AllReduceKernel,
                             OPWRIGHT_NCCL_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce_start", "cuda", opwright_nccl::StartKernel,
                             OPWRIGHT_NCCL_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce_wait", "cuda", opwright_nccl::WaitKernel,
                             OPWRIGHT_NCCL_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.reduce_scatter", "cuda", opwright_nccl::ReduceScatterKernel,
                             OPWRIGHT_NCCL_NUMBERS);
