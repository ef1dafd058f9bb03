// Strided copies between tensors, and memory copies.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

// T is any type as wide as a contiguous chunk. The layout has the strides of `out`, then of `x`,
// which may be negative.
template <typename T, typename Int>
__global__ void move_elements(T* out, const T* x, int64_t n, Layout<2> layout) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    int64_t offsets[2];
    Locate<Int>(layout, i, offsets);
    out[offsets[0]] = x[offsets[1]];
  }
}

// Copies bytes in units of T, and the remaining bytes one by one. The kernel is memory-bound, and
// full bandwidth requires several units in flight per thread. Therefore, each thread reads `many`
// units, which are blockDim.x units apart, before it writes them.
template <typename T, int many>
__global__ void copy_memory(uint8_t* out, const uint8_t* x, int64_t n_bytes) {
  const auto n = n_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x * many + threadIdx.x;
  T units[many];
#pragma unroll
  for (int k = 0; k < many; ++k) {
    const int64_t i = first + static_cast<int64_t>(k) * blockDim.x;
    if (i < n) units[k] = reinterpret_cast<const T*>(x)[i];
  }
#pragma unroll
  for (int k = 0; k < many; ++k) {
    const int64_t i = first + static_cast<int64_t>(k) * blockDim.x;
    if (i < n) reinterpret_cast<T*>(out)[i] = units[k];
  }
  const int64_t rest = n * static_cast<int64_t>(sizeof(T)) + GlobalIndex();
  if (rest < n_bytes) out[rest] = x[rest];
}
