// Makes the SDK functions for array elements available in this package's namespace. These functions
// read and write 16-bit floats as float.
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
