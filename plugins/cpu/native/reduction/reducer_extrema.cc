// Reducers for extrema, any and all.
#include "reduction/reducer_kernel.h"

namespace opwright_cpu {

#define OPWRIGHT_CPU_INSTANTIATE(T)             \
  template class Reducer<T, Extremum<T, true>>; \
  template class Reducer<T, Extremum<T, false>>
OPWRIGHT_CPU_INSTANTIATE(float);
OPWRIGHT_CPU_INSTANTIATE(double);
OPWRIGHT_CPU_INSTANTIATE(int8_t);
OPWRIGHT_CPU_INSTANTIATE(int16_t);
OPWRIGHT_CPU_INSTANTIATE(int32_t);
OPWRIGHT_CPU_INSTANTIATE(int64_t);
OPWRIGHT_CPU_INSTANTIATE(uint8_t);
OPWRIGHT_CPU_INSTANTIATE(uint16_t);
OPWRIGHT_CPU_INSTANTIATE(uint32_t);
OPWRIGHT_CPU_INSTANTIATE(uint64_t);
#undef OPWRIGHT_CPU_INSTANTIATE

#define OPWRIGHT_CPU_INSTANTIATE(In)                 \
  template class Reducer<uint8_t, Truth<false>, In>; \
  template class Reducer<uint8_t, Truth<true>, In>
OPWRIGHT_CPU_INSTANTIATE(float);
OPWRIGHT_CPU_INSTANTIATE(double);
OPWRIGHT_CPU_INSTANTIATE(uint8_t);
OPWRIGHT_CPU_INSTANTIATE(uint16_t);
OPWRIGHT_CPU_INSTANTIATE(uint32_t);
OPWRIGHT_CPU_INSTANTIATE(uint64_t);
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
