// The collectives of opwright-dist for the CPU.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "joining.h"
#include "kernel.h"
#include "library.h"
#include "parts.h"
#include "reduction.h"

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

int64_t BytesOf(const opwright::InputTensor& tensor) {
  return tensor.numel() * (tensor.dtype().bits / 8);
}

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

// Several tensors in one reduction.
struct Bucket {
  std::unique_ptr<Reduction> reduction;
  Source source;
  Target target;
};

void FindSource(const opwright::RunContext& ctx, Source* source) {
  source->Clear();
  for (uint32_t i = 0; i < ctx.input_count(0); ++i) {
    const opwright::InputTensor x = ctx.input(0, i);
    source->Add(static_cast<const char*>(x.raw()), BytesOf(x));
  }
}

void FindTarget(const opwright::RunContext& ctx, Target* target) {
  target->Clear();
  for (uint32_t i = 0; i < ctx.output_count(0); ++i) {
    const opwright::OutputTensor out = ctx.output(0, i);
    target->Add(static_cast<char*>(out.raw()), BytesOf(out));
  }
}

template <typename T>
struct StartKernel {
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext& ctx, const ReduceAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &group_));
    for (uint32_t i = 0; i < ctx.input_count(0); ++i) n_ += ctx.input(0, i).numel();
    const bool is_mean = attrs.reduce == "mean";  // of others the number of rows is no weight
    is_weighted_ = is_mean && attrs.unequal_rows == "weight" && ctx.has_input(1);
    if (is_weighted_) rows_ = static_cast<double>(ctx.input(1).shape().dims()[0]);
    ctx.SetEstimate(static_cast<uint64_t>(n_ * static_cast<int64_t>(sizeof(T))) / 10 + 1000);
    return Status::Ok();
  }
  using Bound = Bucket;
  Status Bind(const opwright::RunContext&, const ReduceAttrs& attrs, Bucket& bucket) const {
    bucket.reduction =
        Reduction::Make(group_, ReduceOf(attrs.reduce), opwright::DtypeOf<T>(), n_, is_weighted_);
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const ReduceAttrs&, Bucket& bucket) const {
    constexpr const char* kWho = "dist.all_reduce";
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    if (!bucket.reduction->IsDone()) {  // of a run that failed before it waited
      OPWRIGHT_RETURN_IF_ERROR(bucket.reduction->Wait(kWho, PollOf(ctx), nullptr));
    }
    FindSource(ctx, &bucket.source);
    auto* reduction = bucket.reduction.get();
    ctx.output(0).template data<int64_t>()[0] = reinterpret_cast<intptr_t>(reduction);
    return reduction->Start(kWho, bucket.source, rows_);
  }
  Group* group_ = nullptr;
  int64_t n_ = 0;
  bool is_weighted_ = false;
  double rows_ = 1;
};

template <typename T>
struct WaitKernel {
  using Bound = Target;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  static Status Bind(const opwright::RunContext&, const opwright::NoAttrs&, Target&) {
    return Status::Ok();
  }
  static Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&, Target& target) {
    constexpr const char* kWho = "dist.all_reduce";
    auto* reduction = reinterpret_cast<Reduction*>(  // NOLINT(performance-no-int-to-ptr)
        static_cast<intptr_t>(ctx.input(1).template data<int64_t>()[0]));
    const std::lock_guard<std::mutex> lock(reduction->group()->mutex);
    FindTarget(ctx, &target);
    return reduction->Wait(kWho, PollOf(ctx), &target);
  }
};

// One tensor, where no pass has made buckets.
template <typename T>
struct AllReduceKernel : StartKernel<T> {
  Status Run(const opwright::RunContext& ctx, const ReduceAttrs&, Bucket& bucket) const {
    constexpr const char* kWho = "dist.all_reduce";
    Group* group = this->group_;
    const std::lock_guard<std::mutex> lock(group->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group, kWho, ctx));
    if (!bucket.reduction->IsDone()) {  // of a run that failed while it waited
      OPWRIGHT_RETURN_IF_ERROR(bucket.reduction->Wait(kWho, PollOf(ctx), nullptr));
    }
    FindSource(ctx, &bucket.source);
    FindTarget(ctx, &bucket.target);
    return bucket.reduction->Run(kWho, PollOf(ctx), bucket.source, bucket.target, this->rows_);
  }
};

template <typename Attrs>
struct PartsKernel {
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Group* group_ = nullptr;
  Parts parts_;
};

template <typename T>
struct AllGatherKernel : PartsKernel<AxisAttrs> {
  using Bound = Buffers;
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &group_));
    parts_.SetUp(ctx.output(0), attrs.axis, group_->size, sizeof(T));
    return Status::Ok();
  }
  Status Bind(const opwright::RunContext&, const AxisAttrs&, Buffers& buffers) const {
    buffers.sent.resize(static_cast<size_t>(parts_.part_bytes()));
    buffers.received.resize(static_cast<size_t>(parts_.part_bytes() * parts_.n_parts));
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, Buffers& buffers) const {
    constexpr const char* kWho = "dist.all_gather";
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    const int64_t bytes = parts_.part_bytes();
    if (bytes != 0)
      std::memcpy(buffers.sent.data(), ctx.input(0).raw(), static_cast<size_t>(bytes));
    OPWRIGHT_RETURN_IF_ERROR(Exchange(group_, kWho, ctx, buffers, [&](Request* request) {
      return Mpi().Iallgather_c(buffers.sent.data(), bytes, TypeByte(), buffers.received.data(),
                                bytes, TypeByte(), group_->first, request);
    }));
    if (bytes != 0) parts_.Join(buffers.received.data(), static_cast<char*>(ctx.output(0).raw()));
    return Status::Ok();
  }
};

// Sends each process its part of x; the parts that came are in `received`.
template <typename Attrs>
struct SendPartsKernel : PartsKernel<Attrs> {
  using Bound = Buffers;
  Status PrepareParts(opwright::PrepareContext& ctx, const Attrs& attrs, int64_t item) {
    OPWRIGHT_RETURN_IF_ERROR(FindMembers(attrs.group, &this->group_));
    this->parts_.SetUp(ctx.input(0), attrs.axis, this->group_->size, item);
    return Status::Ok();
  }
  Status Bind(const opwright::RunContext&, const Attrs&, Buffers& buffers) const {
    const auto bytes = static_cast<size_t>(this->parts_.part_bytes() * this->parts_.n_parts);
    buffers.sent.resize(bytes);
    buffers.received.resize(bytes);
    return Status::Ok();
  }
  Status SendParts(const char* who, const opwright::RunContext& ctx, Buffers& buffers) const {
    Group* group = this->group_;
    OPWRIGHT_RETURN_IF_ERROR(Enter(group, who, ctx));
    const int64_t bytes = this->parts_.part_bytes();
    if (bytes != 0) {
      this->parts_.Divide(static_cast<const char*>(ctx.input(0).raw()), buffers.sent.data());
    }
    return Exchange(group, who, ctx, buffers, [&](Request* request) {
      return Mpi().Ialltoall_c(buffers.sent.data(), bytes, TypeByte(), buffers.received.data(),
                               bytes, TypeByte(), group->first, request);
    });
  }
};

template <typename T>
struct AllToAllKernel : SendPartsKernel<AxisAttrs> {
  Status Prepare(opwright::PrepareContext& ctx, const AxisAttrs& attrs) {
    return PrepareParts(ctx, attrs, sizeof(T));
  }
  Status Run(const opwright::RunContext& ctx, const AxisAttrs&, Buffers& buffers) const {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(SendParts("dist.all_to_all", ctx, buffers));
    if (parts_.part_bytes() != 0) {
      parts_.Join(buffers.received.data(), static_cast<char*>(ctx.output(0).raw()));
    }
    return Status::Ok();
  }
};

template <typename T>
struct ReduceScatterKernel : SendPartsKernel<ScatterAttrs> {
  Status Prepare(opwright::PrepareContext& ctx, const ScatterAttrs& attrs) {
    reduce_ = ReduceOf(attrs.reduce);
    return PrepareParts(ctx, attrs, sizeof(T));
  }
  Status Run(const opwright::RunContext& ctx, const ScatterAttrs&, Buffers& buffers) const {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(SendParts("dist.reduce_scatter", ctx, buffers));
    const int64_t n = parts_.part_bytes() / static_cast<int64_t>(sizeof(T));
    std::vector<const void*> parts;
    for (int r = 0; r < group_->size; ++r) {
      parts.push_back(buffers.received.data() + r * parts_.part_bytes());
    }
    JoinOf(opwright::DtypeOf<T>())(reduce_, parts.data(), group_->size, n, nullptr,
                                   ctx.output(0).raw());
    return Status::Ok();
  }
  Reduce reduce_ = Reduce::kSum;
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
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce", "cpu", opwright_mpi::AllReduceKernel,
                             OPWRIGHT_MPI_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce_start", "cpu", opwright_mpi::StartKernel,
                             OPWRIGHT_MPI_NUMBERS);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.all_reduce_wait", "cpu", opwright_mpi::WaitKernel,
                             OPWRIGHT_MPI_NUMBERS);
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
