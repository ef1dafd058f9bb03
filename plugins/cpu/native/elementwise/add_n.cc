// add_n: the sum of a list of tensors with the same shape.
#include <algorithm>

#include "common/attributes.h"
#include "common/parallel.h"
#include "elementwise/kernel.h"

namespace opwright_cpu {
namespace {

// Adds the terms in order, block by block, so the partial sums stay in the L1 cache.
class AddNKernel {
 public:
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const NoAttrs&) {
    const DLDataType dtype = ctx.output(0).dtype();
    if (IsHalf(dtype)) rows_ = HalfRowsOf(dtype);
    n_ = ctx.output(0).numel();
    item_bytes_ = dtype.bits / 8;
    n_terms_ = ctx.input_count(0);
    add_ = FindFunction("add")->select(WideDtype(dtype));
    ctx.SetEstimate(
        EstimateNs(n_, static_cast<double>(n_ * item_bytes_ * (n_terms_ + 1)), 0, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const NoAttrs&) const {
    char* out = static_cast<char*>(ctx.output(0).raw());
    ParallelFor(ctx.n_threads(), n_, kElementGrain, kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) {
        const auto add = rows_.widen != nullptr ? &AddNKernel::AddHalves : &AddNKernel::AddTerms;
        (this->*add)(ctx, i * item_bytes_, std::min(kBlock, end - i), out + i * item_bytes_);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  const char* Term(const opwright::RunContext& ctx, uint32_t term, int64_t offset_bytes) const {
    return static_cast<const char*>(ctx.input(0, term).raw()) + offset_bytes;
  }

  void AddTerms(const opwright::RunContext& ctx, int64_t offset_bytes, int64_t count,
                char* out) const {
    const char* first = Term(ctx, 0, offset_bytes);
    if (n_terms_ == 1) std::copy_n(first, count * item_bytes_, out);
    for (uint32_t term = 1; term < n_terms_; ++term) {
      const void* pair[] = {term == 1 ? first : out, Term(ctx, term, offset_bytes)};
      add_(pair, out, count, Parameters{});
    }
  }

  // The sum is rounded once, not after each term.
  void AddHalves(const opwright::RunContext& ctx, int64_t offset_bytes, int64_t count,
                 char* out) const {
    float sum[kBlock], next[kBlock];
    rows_.widen(Term(ctx, 0, offset_bytes), sum, count);
    for (uint32_t term = 1; term < n_terms_; ++term) {
      rows_.widen(Term(ctx, term, offset_bytes), next, count);
      const void* pair[] = {sum, next};
      add_(pair, sum, count, Parameters{});
    }
    rows_.narrow(sum, out, count);
  }

  int64_t n_ = 0;
  HalfRows rows_;  // unset if the terms are not 16-bit floats
  int64_t item_bytes_ = 0;
  uint32_t n_terms_ = 0;
  Loop add_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER(add_n, AddNKernel, OPWRIGHT_CPU_NUMBERS, OPWRIGHT_CPU_HALVES);
