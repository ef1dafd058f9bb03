// Class ids as vectors with a single 1.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// T is any type with the size of an element. The layout has the dimensions [ids, depth]. An id
// outside [0, depth) is reported and yields a vector of 0.
template <typename T, typename Index, typename Int>
__global__ void one_hot(T* out, const Index* x, int64_t n, Layout<0> layout, Fault* fault,
                        int32_t text, T one) {
  const int64_t depth = layout.dims[0];
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const auto number = static_cast<int64_t>(QuotientByDim<Int>(layout, 0, static_cast<Int>(i)));
    const int64_t place = i - number * depth;
    const auto id = static_cast<int64_t>(x[number]);
    if (place == 0 && (id < 0 || id >= depth)) Report(fault, text, id);
    out[i] = id == place ? one : T(0);
  }
}
