// Sums of 16-bit floats that are never stored as floats.
#ifndef OPWRIGHT_CPU_COMMON_HALF_SUM_H_
#define OPWRIGHT_CPU_COMMON_HALF_SUM_H_

#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Adds up n elements, some thousand at most, in float and in many lanes.
using HalfSum = float (*)(const void* from, int64_t n);

// The function for float16 or bfloat16, with the instructions of this processor.
HalfSum HalfSumOf(DLDataType dtype);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_HALF_SUM_H_
