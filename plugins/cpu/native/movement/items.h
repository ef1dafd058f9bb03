// The bits of single items, for kernels that write items of any dtype.
#ifndef OPWRIGHT_CPU_MOVEMENT_ITEMS_H_
#define OPWRIGHT_CPU_MOVEMENT_ITEMS_H_

#include <cstdint>
#include <cstring>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Returns the bits of the number 1.
inline uint64_t OneOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return 0x3f80;
  if (dtype.code != kDLFloat) return 1;
  if (dtype.bits == 16) return 0x3c00;
  return dtype.bits == 32 ? 0x3f800000 : 0x3ff0000000000000;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_ITEMS_H_
