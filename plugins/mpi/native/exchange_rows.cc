// dist.exchange_rows, in which each process sends a given number of rows to every other process.
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel.h"

namespace opwright_mpi {
namespace {

using opwright::Status;

constexpr const char* kWho = "dist.exchange_rows";

struct RowAttrs {
  std::string group;
  OPWRIGHT_ATTRIBUTES(group);
};

// Bytes sent to or received from each process, and their offsets.
struct Spans {
  std::vector<Count> bytes;
  std::vector<Address> begins;
  int64_t total = 0;

  explicit Spans(size_t n) : bytes(n), begins(n) {}

  // `n_rows` limits the sum of the counts.
  Status Set(const char* what, const int64_t* counts, int64_t row_bytes, int64_t n_rows) {
    int64_t n = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (counts[i] < 0 || counts[i] > n_rows - n) {
        return Status::Error(kWho, ": ", what, " must be at least 0 with a sum of at most ", n_rows,
                             ", got ", counts[i], " for process ", i, " after ", n,
                             " for earlier processes");
      }
      begins[i] = n * row_bytes;
      bytes[i] = counts[i] * row_bytes;
      n += counts[i];
    }
    total = n * row_bytes;
    return Status::Ok();
  }
};

// Buffers and values that MPI reads while it sends; they stay allocated if a wait fails.
struct RowBuffers {
  Buffers buffers;
  std::unique_ptr<Spans> sent;
  std::unique_ptr<Spans> received;

  RowBuffers() = default;
  RowBuffers(RowBuffers&&) = default;
  RowBuffers& operator=(RowBuffers&&) = delete;
  ~RowBuffers() {
    if (buffers.request == nullptr || *buffers.request == RequestNull()) return;
    static_cast<void>(sent.release());
    static_cast<void>(received.release());
  }
};

// The inputs are x, send_counts, receive_counts and `like` (only its shape); the output is out.
template <typename T>
struct ExchangeRowsKernel {
  using Bound = RowBuffers;
  static void Configure(opwright::KernelOptions& options) { ConfigureBlocking(options); }
  Status Prepare(opwright::PrepareContext& ctx, const RowAttrs& attrs) {
    const std::vector<int64_t> shape = ctx.input(0).shape().dims();
    row_bytes_ = sizeof(T);
    for (size_t i = 1; i < shape.size(); ++i) row_bytes_ *= shape[i];
    n_sent_ = shape[0];
    n_received_ = ctx.output(0).shape().dims()[0];
    return FindMembers(attrs.group, &group_);
  }
  Status Bind(const opwright::RunContext&, const RowAttrs&, RowBuffers& bound) const {
    const auto n_processes = static_cast<size_t>(group_->size);
    bound.sent = std::make_unique<Spans>(n_processes);
    bound.received = std::make_unique<Spans>(n_processes);
    bound.buffers.sent.resize(static_cast<size_t>(n_sent_ * row_bytes_));
    bound.buffers.received.resize(static_cast<size_t>(n_received_ * row_bytes_));
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const RowAttrs&, RowBuffers& bound) const {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    OPWRIGHT_RETURN_IF_ERROR(Enter(group_, kWho, ctx));
    Spans& sent = *bound.sent;
    Spans& received = *bound.received;
    Buffers& buffers = bound.buffers;
    OPWRIGHT_RETURN_IF_ERROR(
        sent.Set("send_counts", ctx.input(1).template data<int64_t>(), row_bytes_, n_sent_));
    OPWRIGHT_RETURN_IF_ERROR(received.Set("receive_counts", ctx.input(2).template data<int64_t>(),
                                          row_bytes_, n_received_));
    if (sent.total != 0) {
      std::memcpy(buffers.sent.data(), ctx.input(0).raw(), static_cast<size_t>(sent.total));
    }
    OPWRIGHT_RETURN_IF_ERROR(Exchange(group_, kWho, ctx, buffers, [&](Request* request) {
      return Mpi().Ialltoallv_c(buffers.sent.data(), sent.bytes.data(), sent.begins.data(),
                                TypeByte(), buffers.received.data(), received.bytes.data(),
                                received.begins.data(), TypeByte(), group_->first, request);
    }));
    auto* out = static_cast<char*>(ctx.output(0).raw());
    const int64_t whole = n_received_ * row_bytes_;
    if (whole == 0) return Status::Ok();
    std::memcpy(out, buffers.received.data(), static_cast<size_t>(received.total));
    std::memset(out + received.total, 0, static_cast<size_t>(whole - received.total));
    return Status::Ok();
  }

  Group* group_ = nullptr;
  int64_t row_bytes_ = 0;
  int64_t n_sent_ = 0;
  int64_t n_received_ = 0;
};

}  // namespace
}  // namespace opwright_mpi

OPWRIGHT_REGISTER_KERNEL_FOR("dist.exchange_rows", "cpu", opwright_mpi::ExchangeRowsKernel,
                             opwright::Float16, opwright::BFloat16, float, double, int32_t,
                             int64_t);
