// Elements that change their place: boxes of one tensor copied into boxes of another.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// T is anything of the size of what lies side by side. The layout holds the strides of `out`, then
// those of `x`; they may be negative.
template <typename T, typename Int>
__global__ void move_elements(T* out, const T* x, int64_t n, Layout<2> layout) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    int64_t offsets[2];
    Locate<Int>(layout, i, offsets);
    out[offsets[0]] = x[offsets[1]];
  }
}
