// Reducers for sums and products; integers are summed and multiplied in 64 bits.
#include "reduction/number_sum.h"
#include "reduction/reducer_kernel.h"

namespace opwright_cpu {

#define OPWRIGHT_CPU_INSTANTIATE(T)  \
  template class Reducer<T, Sum<T>>; \
  template class Reducer<T, Prod<T>>
OPWRIGHT_CPU_INSTANTIATE(float);
OPWRIGHT_CPU_INSTANTIATE(double);
OPWRIGHT_CPU_INSTANTIATE(uint64_t);
#undef OPWRIGHT_CPU_INSTANTIATE

#define OPWRIGHT_CPU_INSTANTIATE(In)                   \
  template class Reducer<uint64_t, Sum<uint64_t>, In>; \
  template class Reducer<uint64_t, Prod<uint64_t>, In>
OPWRIGHT_CPU_INSTANTIATE(int8_t);
OPWRIGHT_CPU_INSTANTIATE(int16_t);
OPWRIGHT_CPU_INSTANTIATE(int32_t);
OPWRIGHT_CPU_INSTANTIATE(uint8_t);
OPWRIGHT_CPU_INSTANTIATE(uint16_t);
OPWRIGHT_CPU_INSTANTIATE(uint32_t);
#undef OPWRIGHT_CPU_INSTANTIATE

template class Reducer<float, NumberSum<float>>;
template class Reducer<double, NumberSum<double>>;

// These instances are for sum_like, in which sums keep the input type.
template class Reducer<uint8_t, Sum<uint8_t>>;
template class Reducer<uint16_t, Sum<uint16_t>>;
template class Reducer<uint32_t, Sum<uint32_t>>;

}  // namespace opwright_cpu
