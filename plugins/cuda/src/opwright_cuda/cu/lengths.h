// The lengths of padded sequences.
#ifndef OPWRIGHT_CUDA_LENGTHS_H_
#define OPWRIGHT_CUDA_LENGTHS_H_

#include "kernel.h"

// Reports a length out of range; a thread for each.
template <typename Index>
__global__ void check_lengths(const Index* lengths, int64_t n, int64_t steps,
                              opwright_cuda::Fault* fault, int32_t text) {
  for (int64_t i = opwright_cuda::GlobalIndex(); i < n; i += opwright_cuda::GridThreads()) {
    const auto length = static_cast<int64_t>(lengths[i]);
    if (length < 0 || length > steps) opwright_cuda::Report(fault, text, length);
  }
}

#endif  // OPWRIGHT_CUDA_LENGTHS_H_
