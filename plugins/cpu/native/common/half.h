// Aliases, in this package's namespace, of the conversions of 16-bit floats.
#ifndef OPWRIGHT_CPU_COMMON_HALF_H_
#define OPWRIGHT_CPU_COMMON_HALF_H_

#include <opwright/functors/half.h>

namespace opwright_cpu {

using opwright::functors::BFloat16OfFloat;
using opwright::functors::BitsOfFloat;
using opwright::functors::Float16OfDouble;
using opwright::functors::Float16OfFloat;
using opwright::functors::FloatOfBFloat16;
using opwright::functors::FloatOfBits;
using opwright::functors::FloatOfFloat16;

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_HALF_H_
