// The lengths of padded sequences.
#ifndef OPWRIGHT_CUDA_LENGTHS_H_
#define OPWRIGHT_CUDA_LENGTHS_H_

#include "kernel.h"

namespace opwright_cuda {

// The int32 or int64 lengths of padded sequences. Null means full lengths.
struct Lengths {
  const void* values;
  bool is_wide;

  // Returns the length of a sequence, clamped to `steps`; check_lengths reports invalid lengths.
  OW_INLINE int64_t Of(int64_t i, int64_t steps) const {
    if (values == nullptr) return steps;
    const int64_t length =
        is_wide ? static_cast<const int64_t*>(values)[i] : static_cast<const int32_t*>(values)[i];
    return length < 0 ? 0 : length > steps ? steps : length;
  }
};

}  // namespace opwright_cuda

// Reports lengths out of range, with one thread per length.
template <typename Index>
__global__ void check_lengths(const Index* lengths, int64_t n, int64_t steps,
                              opwright_cuda::Fault* fault, int32_t text) {
  for (int64_t i = opwright_cuda::GlobalIndex(); i < n; i += opwright_cuda::GridThreads()) {
    const auto length = static_cast<int64_t>(lengths[i]);
    if (length < 0 || length > steps) opwright_cuda::Report(fault, text, length);
  }
}

#endif  // OPWRIGHT_CUDA_LENGTHS_H_
