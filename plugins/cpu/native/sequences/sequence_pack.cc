// sequence_pack and sequence_unpack; each moves elements like the gradient of the other operator.
#include <cstring>

#include "common/attributes.h"
#include "movement/stream.h"
#include "sequences/sequences.h"

namespace opwright_cpu {
namespace {

// Computes the row offset of each sequence in the packed tensor, followed by the number of rows.
opwright::Status Begins(const opwright::RunContext& ctx, const Padded& padded, int64_t* begins) {
  const Positions lengths(ctx.input(1), padded.n);
  OPWRIGHT_RETURN_IF_ERROR(padded.Check(lengths));
  begins[0] = 0;
  for (int64_t i = 0; i < padded.n; ++i) begins[i + 1] = begins[i] + lengths[i];
  return opwright::Status::Ok();
}

opwright::Status CheckRows(int64_t rows, int64_t total) {
  if (rows == total) return opwright::Status::Ok();
  return opwright::Status::Error("lengths must add up to the ", rows,
                                 " rows of the packed sequences, got a sum of ", total);
}

void Pack(const char* x, const Padded& padded, const int64_t* begins, char* packed,
          int32_t n_threads) {
  if (padded.bytes() == 0) return;
  padded.Each(n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CopyBytes(x + i * padded.steps * padded.row_bytes, packed + begins[i] * padded.row_bytes,
                (begins[i + 1] - begins[i]) * padded.row_bytes, 1);
    }
  });
}

void Unpack(const char* packed, const Padded& padded, const int64_t* begins, char* out,
            int32_t n_threads) {
  if (padded.bytes() == 0) return;
  padded.Each(n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* sequence = out + i * padded.steps * padded.row_bytes;
      const int64_t bytes = (begins[i + 1] - begins[i]) * padded.row_bytes;
      CopyBytes(packed + begins[i] * padded.row_bytes, sequence, bytes, 1);
      ZeroBytes(sequence + bytes, padded.steps * padded.row_bytes - bytes, 1);
    }
  });
}

void PrepareBegins(opwright::PrepareContext& ctx, const Padded& padded) {
  ctx.SetWorkspace(static_cast<uint64_t>(padded.n + 1) * sizeof(int64_t));
  ctx.SetEstimate(MoveNanoseconds(padded.bytes(), ctx.n_threads()));
}

// The inputs are x and lengths.
template <typename T>
struct SequencePackKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    padded_ = Padded(ctx.input(0));
    PrepareBegins(ctx, padded_);
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    auto* begins = ctx.workspace<int64_t>();
    OPWRIGHT_RETURN_IF_ERROR(Begins(ctx, padded_, begins));
    std::vector<int64_t> shape(padded_.shape.begin() + 1, padded_.shape.end());
    shape[0] = begins[padded_.n];
    OPWRIGHT_RETURN_IF_ERROR(ctx.Resize(0, opwright::Shape(std::move(shape))));
    Pack(Bytes(ctx.input(0)), padded_, begins, MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  Padded padded_;
};

// sequence_unpack and the gradient of sequence_pack, which read rows from input kRows and lengths
// from input 1.
template <uint32_t kRows, typename Attrs>
struct UnpackKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs&) {
    padded_ = Padded(ctx.output(0));
    rows_ = ctx.input(kRows).shape().dims()[0];
    PrepareBegins(ctx, padded_);
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    auto* begins = ctx.workspace<int64_t>();
    OPWRIGHT_RETURN_IF_ERROR(Begins(ctx, padded_, begins));
    OPWRIGHT_RETURN_IF_ERROR(CheckRows(rows_, begins[padded_.n]));
    Unpack(Bytes(ctx.input(kRows)), padded_, begins, MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  Padded padded_;
  int64_t rows_ = 0;
};

template <typename T>
using SequenceUnpackKernel = UnpackKernel<0, SequenceAttrs>;
// The inputs are x (its shape only), lengths and out_grad; the output is x_grad.
template <typename T>
using SequencePackGradKernel = UnpackKernel<2, NoAttrs>;

// The inputs are x (its shape only), lengths and out_grad; the output is x_grad.
template <typename T>
struct SequenceUnpackGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const SequenceAttrs&) {
    padded_ = Padded(ctx.input(2));
    rows_ = ctx.output(0).shape().dims()[0];
    PrepareBegins(ctx, padded_);
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const SequenceAttrs&) const {
    auto* begins = ctx.workspace<int64_t>();
    OPWRIGHT_RETURN_IF_ERROR(Begins(ctx, padded_, begins));
    OPWRIGHT_RETURN_IF_ERROR(CheckRows(rows_, begins[padded_.n]));
    Pack(Bytes(ctx.input(2)), padded_, begins, MutableBytes(ctx.output(0)), ctx.n_threads());
    return opwright::Status::Ok();
  }
  Padded padded_;
  int64_t rows_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sequence_pack", "cpu", opwright_cpu::SequencePackKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("sequence_pack_grad", "cpu", opwright_cpu::SequencePackGradKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("sequence_unpack", "cpu", opwright_cpu::SequenceUnpackKernel,
                             opwright::AnyDtype);
OPWRIGHT_REGISTER_KERNEL_FOR("sequence_unpack_grad", "cpu", opwright_cpu::SequenceUnpackGradKernel,
                             opwright::AnyDtype);
