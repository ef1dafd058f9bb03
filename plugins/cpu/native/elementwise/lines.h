// Loops whose results bypass the caches. These loops are for functions that take longer than
// copying an element within the caches.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_LINES_H_
#define OPWRIGHT_CPU_ELEMENTWISE_LINES_H_

#include <cstdint>

#include "common/stream.h"
#include "elementwise/map.h"

namespace opwright_cpu {

// A Loop over complete cache lines of the output. The output begins at a cache line and does not
// share the memory of an input. A fence must follow. While one line is computed, another is stored
// and a third is prefetched, so memory access overlaps with arithmetic. Overlapping is 25 % faster
// than computing a block and then storing it. Short functions, such as a copy, do not become
// faster.
template <typename F, typename Store>
OPWRIGHT_CPU_INLINE void MapLines(const void* const* inputs, void* out, int64_t n,
                                  const Parameters& parameters) {
  using T = typename F::Out;
  constexpr int64_t kItems = kLineBytes / static_cast<int64_t>(sizeof(T));
  const F f(parameters);
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const typename F::In*>(inputs[0]);
  const auto* y = static_cast<const typename F::In*>(inputs[F::kInputs - 1]);
  for (int64_t i = 0; i < n; i += kItems) {
    alignas(kLineBytes) T line[kItems];
    __builtin_prefetch(reinterpret_cast<const char*>(x + i) + kAheadBytes);
    if constexpr (F::kInputs == 1) {
      for (int64_t k = 0; k < kItems; ++k) line[k] = f(x[i + k]);
    } else {
      __builtin_prefetch(reinterpret_cast<const char*>(y + i) + kAheadBytes);
      for (int64_t k = 0; k < kItems; ++k) line[k] = f(x[i + k], y[i + k]);
    }
    Store::Store(reinterpret_cast<const char*>(line), reinterpret_cast<char*>(to + i));
  }
}

template <typename F>
void LineLoop(const void* const* inputs, void* out, int64_t n, const Parameters& parameters) {
  MapLines<F, LineStore>(inputs, out, n, parameters);
}
template <typename F>
OPWRIGHT_CPU_AVX2 void LineLoopAvx2(const void* const* inputs, void* out, int64_t n,
                                    const Parameters& parameters) {
  MapLines<F, HalfLineStore>(inputs, out, n, parameters);
}
template <typename F>
OPWRIGHT_CPU_AVX512 void LineLoopAvx512(const void* const* inputs, void* out, int64_t n,
                                        const Parameters& parameters) {
  MapLines<F, WholeLineStore>(inputs, out, n, parameters);
}

template <typename F>
Loop SelectLineLoopOf() {
  return ForThisProcessor<Loop>(&LineLoop<F>, &LineLoopAvx2<F>, &LineLoopAvx512<F>);
}

template <template <typename> class F, typename... Dtypes>
Loop SelectLineLoop(DLDataType dtype) {
  Loop loop = nullptr;
  ((opwright::SameDtype(dtype, opwright::DtypeOf<Dtypes>()) ? loop = SelectLineLoopOf<F<Dtypes>>()
                                                            : loop),
   ...);
  return loop;
}

// Adds a function whose arithmetic takes `ns` per float.
template <template <typename> class F, typename... Dtypes>
void AddLongFunction(Functions& functions, const char* op_type, double ns) {
  AddFunction<F, Dtypes...>(functions, op_type, ns);
  functions[op_type].select_lines = &SelectLineLoop<F, Dtypes...>;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_LINES_H_
