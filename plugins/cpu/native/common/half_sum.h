// Sums of 16-bit floats, which are widened in registers and never stored as floats.
#ifndef OPWRIGHT_CPU_COMMON_HALF_SUM_H_
#define OPWRIGHT_CPU_COMMON_HALF_SUM_H_

#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Sums n elements, at most a few thousand, in float, in many lanes.
using HalfSum = float (*)(const void* from, int64_t n);

// Returns the function for float16 or bfloat16 that uses this processor's instructions.
HalfSum HalfSumOf(DLDataType dtype);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_HALF_SUM_H_
