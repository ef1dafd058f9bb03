// dist.part computes the position of the rows of this process within the whole batch.
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "kernel.h"

namespace opwright_mpi {
namespace {

struct PartAttrs {
  std::string group;
  std::string unequal_rows;
  OPWRIGHT_ATTRIBUTES(group, unequal_rows);
};

// The input is `rows`, used only for its shape; the output is `part`.
template <typename T>
struct PartKernel {
  using Bound = Buffers;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const PartAttrs& attrs) {
    rows_ = ctx.input(0).shape().dims()[0];
    return FindMembers(attrs.group, &group_);
  }
  opwright::Status Bind(const opwright::RunContext&, const PartAttrs&, Buffers& buffers) const {
    buffers.sent.resize(sizeof(int64_t));
    buffers.received.resize(sizeof(int64_t) * static_cast<size_t>(group_->size));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const PartAttrs& attrs,
                       Buffers& buffers) const {
    std::vector<int64_t> rows(static_cast<size_t>(group_->size), rows_);
    if (attrs.unequal_rows == "weight") {
      OPWRIGHT_RETURN_IF_ERROR(Gather(ctx, buffers, rows.data()));
    }
    int64_t* part = ctx.output(0).template data<int64_t>();
    part[0] = std::accumulate(rows.begin(), rows.begin() + group_->rank, int64_t{0});
    part[1] = rows_;
    part[2] = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    return opwright::Status::Ok();
  }

  opwright::Status Gather(const opwright::RunContext& ctx, Buffers& buffers, int64_t* rows) const {
    constexpr const char* kWho = "dist.part";
    constexpr int64_t kBytes = sizeof(int64_t);
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    std::memcpy(buffers.sent.data(), &rows_, sizeof(int64_t));
    OPWRIGHT_RETURN_IF_ERROR(Exchange(group_, kWho, ctx, buffers, [&](Request* request) {
      return Mpi().Iallgather_c(buffers.sent.data(), kBytes, TypeByte(), buffers.received.data(),
                                kBytes, TypeByte(), group_->first, request);
    }));
    std::memcpy(rows, buffers.received.data(), buffers.received.size());
    return opwright::Status::Ok();
  }

  Group* group_ = nullptr;
  int64_t rows_ = 0;
};

}  // namespace
}  // namespace opwright_mpi

OPWRIGHT_REGISTER_KERNEL_FOR("dist.part", "cpu", opwright_mpi::PartKernel, int64_t);
