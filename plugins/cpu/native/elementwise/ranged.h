// Loops over functions that are vectorized for most arguments, called near. All other arguments,
// called far, are processed one by one.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_RANGED_H_
#define OPWRIGHT_CPU_ELEMENTWISE_RANGED_H_

#include <algorithm>
#include <cstdint>

#include "elementwise/map.h"
#include "elementwise/operand.h"

namespace opwright_cpu {

template <typename F>
OPWRIGHT_CPU_INLINE bool IsFarAt(const typename F::In* const* inputs, int64_t i) {
  if constexpr (F::kInputs == 1) {
    return F::IsFar(inputs[0][i]);
  } else {
    return F::IsFar(inputs[0][i], inputs[1][i]);
  }
}

template <typename F>
OPWRIGHT_CPU_CLONES bool AnyIsFar(const typename F::In* const* inputs, int64_t n) {
  int any = 0;
  for (int64_t i = 0; i < n; ++i) any |= static_cast<int>(IsFarAt<F>(inputs, i));
  return any != 0;
}

// All near elements are computed by the same loop, so the result of an element does not depend on
// its neighbors or on the position of its block. `out` may be an input.
template <typename F>
void MapMixedBlock(const typename F::In* const* inputs, typename F::Out* out, int64_t n,
                   const Parameters& parameters) {
  using In = typename F::In;
  In kept[F::kInputs][kBlock];
  const void* sources[F::kInputs];
  const In* copies[F::kInputs];
  for (int k = 0; k < F::kInputs; ++k) {
    std::copy_n(inputs[k], n, kept[k]);
    sources[k] = copies[k] = kept[k];
  }
  MapLoop<F>(sources, out, n, parameters);
  for (int64_t i = 0; i < n; ++i) {
    if (!IsFarAt<F>(copies, i)) continue;
    if constexpr (F::kInputs == 1) {
      out[i] = F::Far(kept[0][i]);
    } else {
      out[i] = F::Far(kept[0][i], kept[1][i]);
    }
  }
}

// F::IsFar decides which arguments are far, and F::Far computes their results.
template <typename F>
void RangedLoop(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  auto* to = static_cast<typename F::Out*>(out);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const typename F::In* from[F::kInputs];
    const void* sources[F::kInputs];
    for (int k = 0; k < F::kInputs; ++k) {
      from[k] = static_cast<const typename F::In*>(inputs[k]) + begin;
      sources[k] = from[k];
    }
    if (AnyIsFar<F>(from, count)) {
      MapMixedBlock<F>(from, to + begin, count, parameters);
    } else {
      MapLoop<F>(sources, to + begin, count, parameters);
    }
  }
}

template <template <typename> class F>
Loop SelectRangedLoop(DLDataType dtype) {
  if (opwright::SameDtype(dtype, opwright::DtypeOf<float>())) return &RangedLoop<F<float>>;
  if (opwright::SameDtype(dtype, opwright::DtypeOf<double>())) return &RangedLoop<F<double>>;
  return nullptr;
}

// Adds a function of floats whose arithmetic takes `ns` per element.
template <template <typename> class F>
void AddRangedFunction(Functions& functions, const char* op_type, double ns) {
  functions[op_type] = {&SelectRangedLoop<F>, F<float>::kInputs, ns, nullptr};
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_RANGED_H_
