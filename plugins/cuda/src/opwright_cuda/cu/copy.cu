// Copies of memory.
#include "kernel.h"

using namespace opwright_cuda;

// Both begin at multiples of 16 bytes, or are the same.
__global__ void copy_bytes(uint8_t* out, const uint8_t* x, int64_t n_bytes) {
  if (out == x) return;
  using Many = Vector<uint64_t, 2>;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Many));
  const int64_t n_vectors = n_bytes / kBytes;
  for (int64_t i = GlobalIndex(); i < n_vectors; i += GridThreads()) {
    reinterpret_cast<Many*>(out)[i] = reinterpret_cast<const Many*>(x)[i];
  }
  const int64_t i = n_vectors * kBytes + GlobalIndex();
  if (i < n_bytes) out[i] = x[i];
}
