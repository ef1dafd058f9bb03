// The lengths of padded sequences.
#ifndef OPWRIGHT_CPU_SEQUENCES_LENGTHS_H_
#define OPWRIGHT_CPU_SEQUENCES_LENGTHS_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Appends sequence lengths, which must be in [0, steps]; appends nothing if the slot is absent.
inline opwright::Status ReadLengths(const opwright::RunContext& ctx, uint32_t slot, int64_t steps,
                                    std::vector<int64_t>* lengths, const char* name = "lengths") {
  if (!ctx.has_input(slot)) return opwright::Status::Ok();
  const opwright::InputTensor given = ctx.input(slot);
  const bool is_wide = given.dtype().bits == 64;
  for (int64_t i = 0; i < given.numel(); ++i) {
    const int64_t length = is_wide ? static_cast<const int64_t*>(given.raw())[i]
                                   : static_cast<const int32_t*>(given.raw())[i];
    if (length < 0 || length > steps) {
      return opwright::Status::Error(name, " must be in [0, ", steps, "], got ", length);
    }
    lengths->push_back(length);
  }
  return opwright::Status::Ok();
}

// Like ReadLengths, but if the slot is absent, all n sequences have the length `steps`.
inline opwright::Status FillLengths(const opwright::RunContext& ctx, uint32_t slot, int64_t steps,
                                    int64_t n, std::vector<int64_t>* lengths,
                                    const char* name = "lengths") {
  OPWRIGHT_RETURN_IF_ERROR(ReadLengths(ctx, slot, steps, lengths, name));
  lengths->resize(static_cast<size_t>(n), steps);
  return opwright::Status::Ok();
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_SEQUENCES_LENGTHS_H_
