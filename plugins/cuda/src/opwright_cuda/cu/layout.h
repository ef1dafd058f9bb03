// Element offsets in tensors with any strides. Created by opwright_cuda.launch.indexing.
#ifndef OPWRIGHT_CUDA_LAYOUT_H_
#define OPWRIGHT_CUDA_LAYOUT_H_

#include "kernel.h"

namespace opwright_cuda {

// The dimensions, last dimension first, and the strides of `n` tensors in elements, 0 for broadcast
// axes.
template <int n>
struct Layout {
  int64_t dims[kMaxRank];
  int64_t strides[n == 0 ? 1 : n][kMaxRank];
  Divider dividers[kMaxRank];
  int32_t rank;
};

// Returns the quotient by one of the dimensions. Division of uint32_t is far cheaper.
template <typename Int, int n>
OW_INLINE Int QuotientByDim(const Layout<n>& layout, int d, Int x) {
  if constexpr (sizeof(Int) == 4) {
    return QuotientOf(x, layout.dividers[d]);
  } else {
    return x / static_cast<Int>(layout.dims[d]);
  }
}

// Computes the offset of element `i` in each tensor. `Int` is uint32_t if the number of elements is
// below 2**31; `Offset` may be uint32_t if all offsets are in that range.
template <typename Int, typename Offset, int n>
OW_INLINE void Locate(const Layout<n>& layout, int64_t i, Offset* offsets) {
#pragma unroll
  for (int k = 0; k < n; ++k) offsets[k] = 0;
  Int rest = static_cast<Int>(i);
#pragma unroll
  for (int d = 0; d < kMaxRank; ++d) {
    if (d >= layout.rank) break;
    const Int quotient = QuotientByDim<Int>(layout, d, rest);
    const auto place = static_cast<Offset>(rest - quotient * static_cast<Int>(layout.dims[d]));
    rest = quotient;
#pragma unroll
    for (int k = 0; k < n; ++k) offsets[k] += place * static_cast<Offset>(layout.strides[k][d]);
  }
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LAYOUT_H_
