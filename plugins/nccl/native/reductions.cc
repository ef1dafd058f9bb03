// dist.all_reduce and reduce_shard, as one operator or as start and wait, and dist.reduce_scatter,
// for CUDA.
#include <cstdint>
#include <string>
#include <type_traits>

#include "bucket_kernels.h"
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

// The two bucketed reductions. A bucket has one lane with complete tensors, or one lane per process
// with that process's shards of all tensors.
struct ToAll {
  static constexpr const char* kWho = "dist.all_reduce";
  static int64_t LanesOf(int) { return 1; }
  static int64_t LengthOf(int64_t n, int) { return n; }
};
struct ToShards {
  static constexpr const char* kWho = "dist.reduce_shard";
  static int64_t LanesOf(int n_processes) { return n_processes; }
  static int64_t LengthOf(int64_t n, int n_processes) { return ShardLength(n, n_processes); }
};

template <typename T, typename To>
struct ReduceBucket : CollectiveKernel {
  using Attrs = ReduceAttrs;
  static constexpr const char* kWho = To::kWho;
  static constexpr bool kIsToAll = std::is_same_v<To, ToAll>;

  Status Prepare(opwright::PrepareContext& ctx, const ReduceAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    n_lanes = To::LanesOf(group->size);
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      n += To::LengthOf(ctx.input(0, i).numel(), group->size);
    }
    const bool is_mean = attrs.reduce == "mean";  // only a mean is weighted by the number of rows
    is_weighted = is_mean && attrs.unequal_rows == "weight" && ctx.has_input(1);
    if (is_weighted) rows = static_cast<double>(ctx.input(1).shape().dims()[0]);
    return numbers.Find(device, opwright::DtypeOf<T>(), attrs.reduce, is_weighted);
  }
  // The arguments are the inputs, followed by the shards.
  Status Bind(const opwright::RunContext&, const ReduceAttrs&, Bucket& bucket) const {
    return BindScratch(device, (n_lanes + (kIsToAll ? 0 : 1)) * lane() * numbers.item(), &bucket);
  }

  Status Start(const opwright::RunContext& ctx, Bucket& bucket) const {
    auto* stream = ctx.stream<CUstream_st>();
    const Address begin = bucket.memory.address();
    Address to = begin;
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
      const opwright::InputTensor x = ctx.input(0, i);
      const int64_t length = To::LengthOf(x.numel(), group->size);
      const Layout layout = Layout::Shards(x.numel(), n_lanes, length, lane());
      OPWRIGHT_RETURN_IF_ERROR(numbers.Pack(stream, x.raw(), to, layout, rows));
      to += static_cast<Address>(length * numbers.item());
    }
    // The weights are summed as an extra element in each lane.
    if (is_weighted) OPWRIGHT_RETURN_IF_ERROR(numbers.Put(stream, to, rows, n_lanes, lane()));
    auto* given = reinterpret_cast<void*>(begin);
    auto* reduced = reinterpret_cast<void*>(ResultOf(bucket));
    const auto count = static_cast<size_t>(lane());
    return group->Begin(
        ctx, kIsToAll ? kAllReduce : kReduceShard, bucket.fork, [&](Comm comm, Stream own) {
          if (count == 0) return kSuccess;
          const auto reduce = kIsToAll ? Nccl().AllReduce : Nccl().ReduceScatter;
          return reduce(given, reduced, count, numbers.type(), numbers.operation(), comm, own);
        });
  }

  Status Finish(const opwright::RunContext& ctx, const Bucket& bucket) const {
    Address from = ResultOf(bucket);
    const Address sum = is_weighted ? from + static_cast<Address>(n * numbers.item()) : 0;
    for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
      const opwright::OutputTensor out = ctx.output(0, i);
      OPWRIGHT_RETURN_IF_ERROR(numbers.Unpack(ctx.stream<CUstream_st>(), from, out.raw(),
                                              Layout::Flat(out.numel()), sum, group->size));
      from += static_cast<Address>(out.numel() * numbers.item());
    }
    return Status::Ok();
  }

  // The weight takes a complete cache line so that lanes stay aligned.
  int64_t lane() const { return n + (is_weighted ? kShardLine : 0); }
  Address ResultOf(const Bucket& bucket) const {
    const int64_t before = kIsToAll ? 0 : n_lanes * lane() * numbers.item();
    return bucket.memory.address() + static_cast<Address>(before);
  }

  Numbers numbers;
  int64_t n_lanes = 1;
  int64_t n = 0;  // tensor elements per lane
  bool is_weighted = false;
  double rows = 1;
};

template <typename T>
using AllReduceStart = StartKernel<ReduceBucket<T, ToAll>>;
template <typename T>
using AllReduceWhole = WholeKernel<ReduceBucket<T, ToAll>>;
template <typename T>
using ReduceShardStart = StartKernel<ReduceBucket<T, ToShards>>;
template <typename T>
using ReduceShardWhole = WholeKernel<ReduceBucket<T, ToShards>>;
template <typename T>
using Wait = WaitKernel;

template <typename T>
struct ReduceScatterKernel : CollectiveKernel {
  using Bound = Scratch;
  Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    layout = Layout::Of(ctx.input(0).shape(), attrs.axis, group->size);
    return numbers.Find(device, opwright::DtypeOf<T>(), attrs.reduce, false);
  }
  Status Bind(const opwright::RunContext&, const ScatterAttrs&, Scratch& scratch) const {
    return BindScratch(device, (layout.n + layout.part()) * numbers.item(), &scratch);
  }
  Status Run(const opwright::RunContext& ctx, const ScatterAttrs&, Scratch& scratch) const {
    return Meet("dist.reduce_scatter", ctx, [&]() -> Status {
      auto* stream = ctx.stream<CUstream_st>();
      const Address all = scratch.memory.address();
      const Address own = all + static_cast<Address>(layout.n * numbers.item());
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

#define OPWRIGHT_NCCL_REDUCTION(type, kernel) \
  OPWRIGHT_REGISTER_KERNEL_FOR(type, "cuda", opwright_nccl::kernel, OPWRIGHT_NCCL_NUMBERS)
OPWRIGHT_NCCL_REDUCTION("dist.all_reduce", AllReduceWhole);
OPWRIGHT_NCCL_REDUCTION("dist.all_reduce_start", AllReduceStart);
OPWRIGHT_NCCL_REDUCTION("dist.all_reduce_wait", Wait);
OPWRIGHT_NCCL_REDUCTION("dist.reduce_shard", ReduceShardWhole);
OPWRIGHT_NCCL_REDUCTION("dist.reduce_shard_start", ReduceShardStart);
OPWRIGHT_NCCL_REDUCTION("dist.reduce_shard_wait", Wait);
OPWRIGHT_NCCL_REDUCTION("dist.reduce_scatter", ReduceScatterKernel);
