// Aliases, in this package's namespace, of the array elements of loops that compute 16-bit floats
// in float.
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
