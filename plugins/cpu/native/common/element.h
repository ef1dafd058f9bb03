// Makes the SDK's functions for array elements, which read and write 16-bit floats as float,
// available in this package's namespace.
#ifndef OPWRIGHT_CPU_COMMON_ELEMENT_H_
#define OPWRIGHT_CPU_COMMON_ELEMENT_H_

#include <opwright/sdk/element.hpp>

namespace opwright_cpu {

using opwright::NumberOf;
using opwright::ReadElement;
using opwright::RoundedElement;
using opwright::WriteElement;

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_ELEMENT_H_
