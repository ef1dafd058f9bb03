// Matrix products that do not read elements whose weight is 0. Masked elements and elements beyond
// the end of a sequence may be NaN, and 0 times NaN is NaN.
#ifndef OPWRIGHT_CPU_ATTENTION_SEEN_H_
#define OPWRIGHT_CPU_ATTENTION_SEEN_H_

#include <cstdint>

#include "gemm/gemm.h"

namespace opwright_cpu {

// Computes the product of GemmCall, but reads an element of b only if the element of a is not 0.
// This function is slow; it is used only in the rare case of non-finite values.
template <typename T>
void MultiplySeen(const GemmCall<T>& call);

// Returns whether all elements are finite; rows are `stride` elements apart.
template <typename T>
bool AllFinite(const T* x, int64_t stride, int64_t rows, int64_t columns);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ATTENTION_SEEN_H_
