// sequence_mask and sequence_reverse.
#include <cstring>

#include "common/attributes.h"
#include "common/clones.h"
#include "sequences/sequences.h"

namespace opwright_cpu {
namespace {

// The inputs are lengths and, only for its shape, like.
template <typename T>
struct SequenceMaskKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const SequenceAttrs&) {
    mask_ = Padded(ctx.output(0));
    ctx.SetEstimate(MoveNanoseconds(mask_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const SequenceAttrs&) const {
    const Positions lengths(ctx.input(0), mask_.n);
    OPWRIGHT_RETURN_IF_ERROR(mask_.Check(lengths));
    if (mask_.bytes() == 0) return opwright::Status::Ok();
    char* out = MutableBytes(ctx.output(0));
    mask_.Each(ctx.n_threads(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        char* row = out + i * mask_.steps;
        std::memset(row, 1, static_cast<size_t>(lengths[i]));
        std::memset(row + lengths[i], 0, static_cast<size_t>(mask_.steps - lengths[i]));
      }
    });
    return opwright::Status::Ok();
  }
  Padded mask_;
};

template <typename Word>
OPWRIGHT_CPU_CLONES void ReverseWords(const void* x, int64_t n, void* out) {
  const Word* from = static_cast<const Word*>(x);
  Word* to = static_cast<Word*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = from[n - 1 - i];
}

void ReverseRows(const char* x, int64_t n, int64_t row_bytes, char* out) {
  if (row_bytes == 1) return ReverseWords<uint8_t>(x, n, out);
  if (row_bytes == 2) return ReverseWords<uint16_t>(x, n, out);
  if (row_bytes == 4) return ReverseWords<uint32_t>(x, n, out);
  if (row_bytes == 8) return ReverseWords<uint64_t>(x, n, out);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out + i * row_bytes, x + (n - 1 - i) * row_bytes, static_cast<size_t>(row_bytes));
  }
}

// The inputs are x and lengths.
template <typename T>
struct SequenceReverseKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }
  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    x_ = Padded(ctx.input(0));
    ctx.SetEstimate(MoveNanoseconds(x_.bytes(), ctx.n_threads()));
    return opwright::Status::Ok();
  }
  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    const Positions lengths(ctx.input(1), x_.n);
    OPWRIGHT_RETURN_IF_ERROR(x_.Check(lengths));
    if (x_.bytes() == 0) return opwright::Status::Ok();
    x_.Each(ctx.n_threads(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char* x = Bytes(ctx.input(0)) + i * x_.steps * x_.row_bytes;
        char* out = MutableBytes(ctx.output(0)) + i * x_.steps * x_.row_bytes;
        const int64_t reversed = lengths[i] * x_.row_bytes;
        ReverseRows(x, lengths[i], x_.row_bytes, out);
        std::memcpy(out + reversed, x + reversed,
                    static_cast<size_t>(x_.steps * x_.row_bytes - reversed));
      }
    });
    return opwright::Status::Ok();
  }
  Padded x_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("sequence_mask", "cpu", opwright_cpu::SequenceMaskKernel, int32_t,
                             int64_t);
OPWRIGHT_REGISTER_KERNEL_FOR("sequence_reverse", "cpu", opwright_cpu::SequenceReverseKernel,
                             opwright::AnyDtype);
