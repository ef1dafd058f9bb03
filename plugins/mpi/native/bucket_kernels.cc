// Bucketed collectives: reductions to all processes or to shards, and gathering of shards, each as
// one operator or split into start and wait.
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "collective.h"
#include "kernel.h"
#include "shard.h"

namespace opwright_mpi {

using opwright::Status;

namespace {

struct GroupAttrs {
  std::string group;
  OPWRIGHT_ATTRIBUTES(group);
};
struct ReduceAttrs {
  std::string group;
  std::string reduce;
  std::string unequal_rows;
  OPWRIGHT_ATTRIBUTES(group, reduce, unequal_rows);
};

struct Bucket {
  std::unique_ptr<Collective> collective;
  Source source;
  Target target;
};

// Collects the tensors of a slot as one concatenated source.
void FindSource(const opwright::RunContext& ctx, int64_t item, Source* source) {
  source->Clear();
  for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
    const opwright::InputTensor x = ctx.input(0, i);
    source->Add(static_cast<const char*>(x.raw()), x.numel() * item);
  }
}

void FindTarget(const opwright::RunContext& ctx, int64_t item, Target* target) {
  target->Clear();
  for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
    const opwright::OutputTensor out = ctx.output(0, i);
    target->Add(static_cast<char*>(out.raw()), out.numel() * item);
  }
}

// Adds one process's shard, which consists of tensor elements followed by padding.
template <typename Byte>
void AddShard(Byte* data, int64_t n, int64_t item, int n_processes, int rank,
              Pieces<Byte>* pieces) {
  const int64_t length = ShardLength(n, n_processes);
  const int64_t own = ShardElements(n, n_processes, rank);
  if (own != 0) pieces->Add(data + rank * length * item, own * item);
  pieces->AddGap((length - own) * item);
}

// Collects the tensors of a slot in one lane per process, with that process's shards of all
// tensors.
void FindSourceLanes(const opwright::RunContext& ctx, int64_t item, int size, Source* source) {
  source->Clear();
  for (int r = 0; r < size; ++r) {
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const opwright::InputTensor x = ctx.input(0, i);
      AddShard(static_cast<const char*>(x.raw()), x.numel(), item, size, r, source);
    }
  }
}

void FindTargetLanes(const opwright::RunContext& ctx, int64_t item, int size, Target* target) {
  target->Clear();
  for (int r = 0; r < size; ++r) {
    for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
      const opwright::OutputTensor out = ctx.output(0, i);
      AddShard(static_cast<char*>(out.raw()), out.numel(), item, size, r, target);
    }
  }
}

// The three kinds of collectives; each defines its name and how its tensors are laid out in lanes.
struct AllReduce {
  using Attrs = ReduceAttrs;
  static constexpr const char* kWho = "dist.all_reduce";
  static constexpr Motion kMotion = Motion::kReduce;
  static int64_t LaneOf(int64_t n, int) { return n; }
  static void From(const opwright::RunContext& ctx, int64_t item, int, Source* source) {
    FindSource(ctx, item, source);
  }
  static void To(const opwright::RunContext& ctx, int64_t item, int, Target* target) {
    FindTarget(ctx, item, target);
  }
};

struct ReduceShard {
  using Attrs = ReduceAttrs;
  static constexpr const char* kWho = "dist.reduce_shard";
  static constexpr Motion kMotion = Motion::kScatter;
  static int64_t LaneOf(int64_t n, int size) { return ShardLength(n, size); }
  static void From(const opwright::RunContext& ctx, int64_t item, int size, Source* source) {
    FindSourceLanes(ctx, item, size, source);
  }
  static void To(const opwright::RunContext& ctx, int64_t item, int, Target* target) {
    FindTarget(ctx, item, target);
  }
};

struct Unshard {
  using Attrs = GroupAttrs;
  static constexpr const char* kWho = "dist.unshard";
  static constexpr Motion kMotion = Motion::kGather;
  static int64_t LaneOf(int64_t n, int) { return n; }
  static void From(const opwright::RunContext& ctx, int64_t item, int, Source* source) {
    FindSource(ctx, item, source);
  }
  static void To(const opwright::RunContext& ctx, int64_t item, int size, Target* target) {
    FindTargetLanes(ctx, item, size, target);
  }
};

template <typename T, typename Kind>
struct BucketKernel {
  using Attrs = typename Kind::Attrs;
  using Bound = Bucket;
  static constexpr int64_t kItem = sizeof(T);

  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &group_));
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      n_ += Kind::LaneOf(ctx.input(0, i).numel(), group_->size);
    }
    if constexpr (std::is_same_v<Attrs, ReduceAttrs>) {
      reduce_ = ReduceOf(attrs.reduce);  // only a mean is weighted by the number of rows
      is_weighted_ = reduce_ == Reduce::kMean && attrs.unequal_rows == "weight" && ctx.has_input(1);
      if (is_weighted_) rows_ = static_cast<double>(ctx.input(1).shape().dims()[0]);
    }
    ctx.SetEstimate(static_cast<uint64_t>(n_ * kItem) / 10 + 1000);
    return Status::Ok();
  }
  Status Bind(const opwright::RunContext&, const Attrs&, Bucket& bucket) const {
    bucket.collective =
        Collective::Make(group_, Kind::kMotion, reduce_, opwright::DtypeOf<T>(), n_, is_weighted_);
    return Status::Ok();
  }

  Group* group_ = nullptr;
  int64_t n_ = 0;  // elements per lane
  Reduce reduce_ = Reduce::kSum;
  bool is_weighted_ = false;
  double rows_ = 1;
};

template <typename T, typename Kind>
struct StartKernel : BucketKernel<T, Kind> {
  Status Run(const opwright::RunContext& ctx, const typename Kind::Attrs&, Bucket& bucket) const {
    Group* group = this->group_;
    const std::lock_guard<std::mutex> lock(group->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group, Kind::kWho, ctx));
    auto* collective = bucket.collective.get();
    OPWRIGHT_RETURN_IF_ERROR(EndEarlierRun(Kind::kWho, ctx, collective));
    Kind::From(ctx, sizeof(T), group->size, &bucket.source);
    ctx.output(0).template data<int64_t>()[0] = reinterpret_cast<intptr_t>(collective);
    return collective->Start(Kind::kWho, bucket.source, this->rows_);
  }
};

template <typename T, typename Kind>
struct WaitKernel {
  using Bound = Target;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  static Status Bind(const opwright::RunContext&, const opwright::NoAttrs&, Target&) {
    return Status::Ok();
  }
  static Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&, Target& target) {
    auto* collective = reinterpret_cast<Collective*>(  // NOLINT(performance-no-int-to-ptr)
        static_cast<intptr_t>(ctx.input(1).template data<int64_t>()[0]));
    const std::lock_guard<std::mutex> lock(collective->group()->mutex);
    Kind::To(ctx, sizeof(T), collective->group()->size, &target);
    return collective->Wait(Kind::kWho, PollOf(ctx), &target);
  }
};

// A kernel for one tensor, without buckets.
template <typename T, typename Kind>
struct WholeKernel : BucketKernel<T, Kind> {
  Status Run(const opwright::RunContext& ctx, const typename Kind::Attrs&, Bucket& bucket) const {
    Group* group = this->group_;
    const std::lock_guard<std::mutex> lock(group->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group, Kind::kWho, ctx));
    OPWRIGHT_RETURN_IF_ERROR(EndEarlierRun(Kind::kWho, ctx, bucket.collective.get()));
    Kind::From(ctx, sizeof(T), group->size, &bucket.source);
    Kind::To(ctx, sizeof(T), group->size, &bucket.target);
    return bucket.collective->Run(Kind::kWho, PollOf(ctx), bucket.source, bucket.target,
                                  this->rows_);
  }
};

// Copies the shard of this process, without communication.
template <typename T>
struct ShardKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "mpi"; }
  Status Prepare(opwright::PrepareContext& ctx, const GroupAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &group_));
    ctx.SetEstimate(static_cast<uint64_t>(ctx.output(0).numel()) * sizeof(T) / 10 + 10);
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const GroupAttrs&) const {
    Source own;
    const opwright::InputTensor x = ctx.input(0);
    AddShard(static_cast<const char*>(x.raw()), x.numel(), sizeof(T), group_->size, group_->rank,
             &own);
    own.Read(0, own.bytes(), static_cast<char*>(ctx.output(0).raw()));
    return Status::Ok();
  }
  Group* group_ = nullptr;
};

template <typename T>
using AllReduceStart = StartKernel<T, AllReduce>;
template <typename T>
using AllReduceWait = WaitKernel<T, AllReduce>;
template <typename T>
using AllReduceWhole = WholeKernel<T, AllReduce>;
template <typename T>
using ReduceShardStart = StartKernel<T, ReduceShard>;
template <typename T>
using ReduceShardWait = WaitKernel<T, ReduceShard>;
template <typename T>
using ReduceShardWhole = WholeKernel<T, ReduceShard>;
template <typename T>
using UnshardStart = StartKernel<T, Unshard>;
template <typename T>
using UnshardWait = WaitKernel<T, Unshard>;
template <typename T>
using UnshardWhole = WholeKernel<T, Unshard>;

}  // namespace
}  // namespace opwright_mpi

#define OPWRIGHT_MPI_BUCKET(type, kernel)                                            \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cpu", opwright_mpi::kernel, opwright::Float16, \
                               opwright::BFloat16, float, double, int32_t, int64_t)
OPWRIGHT_MPI_BUCKET("dist.all_reduce", AllReduceWhole);
OPWRIGHT_MPI_BUCKET("dist.all_reduce_start", AllReduceStart);
OPWRIGHT_MPI_BUCKET("dist.all_reduce_wait", AllReduceWait);
OPWRIGHT_MPI_BUCKET("dist.reduce_shard", ReduceShardWhole);
OPWRIGHT_MPI_BUCKET("dist.reduce_shard_start", ReduceShardStart);
OPWRIGHT_MPI_BUCKET("dist.reduce_shard_wait", ReduceShardWait);
OPWRIGHT_MPI_BUCKET("dist.unshard", UnshardWhole);
OPWRIGHT_MPI_BUCKET("dist.unshard_start", UnshardStart);
OPWRIGHT_MPI_BUCKET("dist.unshard_wait", UnshardWait);
OPWRIGHT_MPI_BUCKET("dist.shard", ShardKernel);
