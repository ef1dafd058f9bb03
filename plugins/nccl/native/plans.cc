// dist.compare_plans and dist.part for CUDA. Both operators exchange data other than tensors.
#include <cstdint>
#include <string>
#include <vector>

#include "kernel.h"
#include "library.h"

namespace opwright_nccl {

using opwright::Status;

PublishFn publish = nullptr;

void SetPublish(PublishFn function) { publish = function; }

namespace {

struct CompareAttrs {
  std::string group;
  std::vector<std::string> entries;
  int64_t digest;
  OPWRIGHT_ATTRIBUTES(group, entries, digest);
};
struct PartAttrs {
  std::string group;
  std::string unequal_rows;
  OPWRIGHT_ATTRIBUTES(group, unequal_rows);
};

template <typename T>
struct CompareKernel : CollectiveKernel {
  using Bound = Scratch;
  // Publishes the entries behind the digest of this process before the plan runs.
  Status Prepare(opwright::PrepareContext& ctx, const CompareAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    std::string text;
    for (const std::string& entry : attrs.entries) text += entry + '\n';
    publish(attrs.digest, text.c_str());
    return Status::Ok();
  }
  Status Bind(const opwright::RunContext&, const CompareAttrs&, Scratch& scratch) const {
    const int64_t n_numbers = 2 * (1 + int64_t{group->size});
    return BindScratch(device, n_numbers * static_cast<int64_t>(sizeof(int64_t)), &scratch);
  }
  Status Run(const opwright::RunContext& ctx, const CompareAttrs& attrs, Scratch& scratch) const {
    return Meet("dist.compare_plans", ctx, [&] {
      return group->Compare(ctx, scratch.fork, attrs.digest, scratch.memory.address());
    });
  }
};

// The input is `rows`, used only for its shape; the output is `part`.
template <typename T>
struct PartKernel : CollectiveKernel {
  using Bound = Scratch;
  Status Prepare(opwright::PrepareContext& ctx, const PartAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(PrepareGroup(ctx, attrs.group));
    rows = ctx.input(0).shape().dims()[0];
    OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, "put<int64_t>", &put));
    return FindKernel(device, "put_part", &put_part);
  }
  Status Bind(const opwright::RunContext&, const PartAttrs&, Scratch& scratch) const {
    const int64_t n_numbers = 1 + int64_t{group->size};
    return BindScratch(device, n_numbers * static_cast<int64_t>(sizeof(int64_t)), &scratch);
  }
  Status Run(const opwright::RunContext& ctx, const PartAttrs& attrs, Scratch& scratch) const {
    const bool is_equal = attrs.unequal_rows != "weight";
    return Meet("dist.part", ctx, [&] {
      const auto part = reinterpret_cast<Address>(ctx.output(0).raw());
      return is_equal ? PutEqual(ctx, part) : Ask(ctx, part, scratch);
    });
  }

  Status PutEqual(const opwright::RunContext& ctx, Address part) const {
    const int64_t numbers[] = {group->rank * rows, rows, group->size * rows};
    for (const int64_t number : numbers) {
      OPWRIGHT_RETURN_IF_ERROR(PutNumber(ctx.stream<CUstream_st>(), part, number));
      part += sizeof(int64_t);
    }
    return Status::Ok();
  }

  Status Ask(const opwright::RunContext& ctx, Address part, const Scratch& scratch) const {
    auto* stream = ctx.stream<CUstream_st>();
    const Address own = scratch.memory.address();
    const Address all = own + sizeof(int64_t);
    OPWRIGHT_RETURN_IF_ERROR(PutNumber(stream, own, rows));
    OPWRIGHT_RETURN_IF_ERROR(Exchange(ctx, kPart, scratch.fork, [&](Comm comm, Stream of_group) {
      return Nccl().AllGather(reinterpret_cast<void*>(own), reinterpret_cast<void*>(all), 1,
                              kTypeInt64, comm, of_group);
    }));
    return Launch(put_part, 1, 1, stream, part, all, static_cast<int32_t>(group->rank),
                  static_cast<int32_t>(group->size));
  }

  Status PutNumber(Stream stream, Address to, int64_t number) const {
    return Launch(put, 1, 1, stream, to, number, int64_t{1});
  }

  KernelHandle put = nullptr;
  KernelHandle put_part = nullptr;
  int64_t rows = 0;
};

}  // namespace
}  // namespace opwright_nccl

OPWRIGHT_REGISTER_KERNEL_FOR("dist.compare_plans", "cuda", opwright_nccl::CompareKernel, int64_t);
OPWRIGHT_REGISTER_KERNEL_FOR("dist.part", "cuda", opwright_nccl::PartKernel, int64_t);
