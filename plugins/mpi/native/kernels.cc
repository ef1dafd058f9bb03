// The collectives of opwright-dist for the CPU.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "joining.h"
#include "kernel.h"
#include "library.h"
#include "parts.h"

namespace opwright_mpi {

using opwright::Status;

namespace {

struct GroupAttrs {
  std::string group;
  OPWRIGHT_ATTRIBUTES(group);
};
struct RootAttrs {
  std::string group;
  int64_t root;
  OPWRIGHT_ATTRIBUTES(group, root);
};
struct AxisAttrs {
  std::string group;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(group, axis);
};
struct ScatterAttrs {
  std::string group;
  std::string reduce;
  int64_t axis;
  OPWRIGHT_ATTRIBUTES(group, reduce, axis);
};
struct CompareAttrs {
  std::string group;
  std::vector<std::string> entries;
  int64_t digest;
  OPWRIGHT_ATTRIBUTES(group, entries, digest);
};

template <typename T>
struct CompareKernel {
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext&, const CompareAttrs& attrs) {
    return FindMembers(attrs.group, &group_);
  }
  Status Run(const opwright::RunContext& ctx, const CompareAttrs& attrs) const {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    return group_->BeginComparison(PollOf(ctx), attrs.digest, &attrs.entries);
  }
  Group* group_ = nullptr;
};

// The buffers of a collective on parts; non-contiguous parts need separate buffers.
struct PartsBound {
  std::unique_ptr<Collective> collective;
  Source source;
  Target target;
  std::vector<char> divided;
  std::vector<char> joined;
};

// A collective of two tensors, one of which is partitioned along an axis.
template <Motion motion, typename Attrs>
struct PartsKernel {
  using Bound = PartsBound;
  static constexpr bool kDivides = motion != Motion::kGather;
  static constexpr bool kJoins = motion != Motion::kScatter;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }

  template <typename Tensor>
  Status PrepareParts(const Tensor& whole, const Attrs& attrs, int64_t item) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &group_));
    parts_.SetUp(whole, attrs.axis, group_->size, item);
    return Status::Ok();
  }
  void BindParts(PartsBound& bound, Reduce reduce, DLDataType dtype) const {
    const int64_t n = parts_.part_bytes() / (dtype.bits / 8);
    bound.collective = Collective::Make(group_, motion, reduce, dtype, n, false);
    const auto bytes = static_cast<size_t>(parts_.part_bytes() * parts_.n_parts);
    if (kDivides && !parts_.is_whole()) bound.divided.resize(bytes);
    if (kJoins && !parts_.is_whole()) bound.joined.resize(bytes);
  }
  Status RunParts(const char* who, const opwright::RunContext& ctx, PartsBound& bound) const {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, who, ctx));
    OPWRIGHT_RETURN_IF_ERROR(EndEarlierRun(who, ctx, bound.collective.get()));
    const auto* from = static_cast<const char*>(ctx.input(0).raw());
    auto* to = static_cast<char*>(ctx.output(0).raw());
    const int64_t all = parts_.part_bytes() * parts_.n_parts;
    if (!bound.divided.empty()) parts_.Divide(from, bound.divided.data());
    bound.source.Clear();
    bound.source.Add(bound.divided.empty() ? from : bound.divided.data(),
                     kDivides ? all : parts_.part_bytes());
    bound.target.Clear();
    bound.target.Add(bound.joined.empty() ? to : bound.joined.data(),
                     kJoins ? all : parts_.part_bytes());
    OPWRIGHT_RETURN_IF_ERROR(
        bound.collective->Run(who, PollOf(ctx), bound.source, bound.target, 1));
    if (!bound.joined.empty()) parts_.Join(bound.joined.data(), to);
    return Status::Ok();
  }

  Group* group_ = nullptr;
  Parts parts_;
};

template <typename T>
struct AllGatherKernel : PartsKernel<Motion::kGather, AxisAttrs> {
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    return PrepareParts(ctx.output(0), attrs, sizeof(T));
  }
  Status Bind(const opwright::RunContext&, const AxisAttrs&, PartsBound& bound) const {
    BindParts(bound, Reduce::kSum, opwright::DtypeOf<T>());
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, PartsBound& bound) const {
    return RunParts("dist.all_gather", ctx, bound);
  }
};

template <typename T>
struct AllToAllKernel : PartsKernel<Motion::kExchange, AxisAttrs> {
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    return PrepareParts(ctx.input(0), attrs, sizeof(T));
  }
  Status Bind(const opwright::RunContext&, const AxisAttrs&, PartsBound& bound) const {
    BindParts(bound, Reduce::kSum, opwright::DtypeOf<T>());
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, PartsBound& bound) const {
    return RunParts("dist.all_to_all", ctx, bound);
  }
};

template <typename T>
struct ReduceScatterKernel : PartsKernel<Motion::kScatter, ScatterAttrs> {
  Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    return PrepareParts(ctx.input(0), attrs, sizeof(T));
  }
  Status Bind(const opwright::RunContext&, const ScatterAttrs& attrs, PartsBound& bound) const {
    BindParts(bound, ReduceOf(attrs.reduce), opwright::DtypeOf<T>());
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const ScatterAttrs&, PartsBound& bound) const {
    return RunParts("dist.reduce_scatter", ctx, bound);
  }
};

template <typename T>
struct BroadcastKernel {
  using Bound = Buffers;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext& ctx, const RootAttrs& attrs) {
    bytes_ = ctx.input(0).numel() * ((ctx.input(0).dtype().bits + 7) / 8);
    return FindMembers(attrs.group, &group_);
  }
  Status Bind(const opwright::RunContext&, const RootAttrs&, Buffers& buffers) const {
    buffers.sent.resize(static_cast<size_t>(bytes_));
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const RootAttrs& attrs, Buffers& buffers) const {
    constexpr const char* kWho = "dist.broadcast";
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    const auto bytes = static_cast<size_t>(bytes_);
    if (bytes != 0) std::memcpy(buffers.sent.data(), ctx.input(0).raw(), bytes);
    OPWRIGHT_RETURN_IF_ERROR(Exchange(group_, kWho, ctx, buffers, [&](Request* request) {
      return Mpi().Ibcast_c(buffers.sent.data(), bytes_, TypeByte(), static_cast<int>(attrs.root),
                            group_->first, request);
    }));
    if (bytes != 0) std::memcpy(ctx.output(0).raw(), buffers.sent.data(), bytes);
    return Status::Ok();
  }
  Group* group_ = nullptr;
  int64_t bytes_ = 0;
};

template <typename T>
struct BarrierKernel {
  using Bound = Buffers;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext& ctx, const GroupAttrs& attrs) {
    bytes_ = static_cast<size_t>(ctx.input(0).numel() * ((ctx.input(0).dtype().bits + 7) / 8));
    return FindMembers(attrs.group, &group_);
  }
  Status Bind(const opwright::RunContext&, const GroupAttrs&, Buffers&) const {
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const GroupAttrs&, Buffers& buffers) const {
    constexpr const char* kWho = "dist.barrier";
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    OPWRIGHT_RETURN_IF_ERROR(Exchange(group_, kWho, ctx, buffers, [&](Request* request) {
      return Mpi().Ibarrier(group_->first, request);
    }));
    if (bytes_ != 0) std::memcpy(ctx.output(0).raw(), ctx.input(0).raw(), bytes_);
    return Status::Ok();
  }
  Group* group_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace
}  // namespace opwright_mpi

#define OPWRIGHT_MPI_NUMBERS opwright::Float16, opwright::BFloat16, float, double, int32_t, int64_t
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_gather", "cpu", opwright_mpi::AllGatherKernel,
                             OPWRIGHT_MPI_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.reduce_scatter", "cpu", opwright_mpi::ReduceScatterKernel,
                             OPWRIGHT_MPI_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_to_all", "cpu", opwright_mpi::AllToAllKernel,
                             OPWRIGHT_MPI_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.broadcast", "cpu", opwright_mpi::BroadcastKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.barrier", "cpu", opwright_mpi::BarrierKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.compare_plans", "cpu", opwright_mpi::CompareKernel, int64_t);
OPWRIGHT_PLUGIN("mpi");
