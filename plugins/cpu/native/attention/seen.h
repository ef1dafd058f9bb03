// Products in which an operand without weight is not read: hidden elements, beyond
// the lengths of sequences or under a mask, may be NaN, and 0 times NaN is NaN.
#ifndef OPWRIGHT_CPU_ATTENTION_SEEN_H_
#define OPWRIGHT_CPU_ATTENTION_SEEN_H_

#include <cstdint>

#include "gemm/gemm.h"

namespace opwright_cpu {

// The product of GemmCall, which reads an element of b only if the element of a is not 0. For the
// rare case that something is not finite: it is slow.
template <typename T>
void MultiplySeen(const GemmCall<T>& call);

// Whether rows at distances of `stride` contain neither NaN nor infinities.
template <typename T>
bool AllFinite(const T* x, int64_t stride, int64_t rows, int64_t columns);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ATTENTION_SEEN_H_
