// add_n: the sum of several tensors with the same shape.
#include "functions.h"
#include "kernel.h"

using namespace opwright_cuda;

constexpr int kMaxTerms = 32;

struct Terms {
  const void* at[kMaxTerms];
  int32_t n;
};

// Adds the terms in order and rounds the sum once. `out` may be one of the terms.
template <typename T, int width>
__global__ void add_n(T* out, Terms terms, int64_t n) {
  using Many = Vector<T, width>;
  const Add<Compute<T>> add;
  const int64_t n_blocks = n / width;
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    Compute<T> sums[width];
    const Many first = static_cast<const Many*>(terms.at[0])[number];
#pragma unroll
    for (int k = 0; k < width; ++k) sums[k] = Load(first.at[k]);
#pragma unroll 4
    for (int term = 1; term < terms.n; ++term) {
      const Many next = static_cast<const Many*>(terms.at[term])[number];
#pragma unroll
      for (int k = 0; k < width; ++k) sums[k] = add(sums[k], Load(next.at[k]));
    }
    Many result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = Store<T>(sums[k]);
    reinterpret_cast<Many*>(out)[number] = result;
  }
  const int64_t i = n_blocks * width + GlobalIndex();
  if (i >= n) return;
  Compute<T> sum = Load(static_cast<const T*>(terms.at[0])[i]);
  for (int term = 1; term < terms.n; ++term) {
    sum = add(sum, Load(static_cast<const T*>(terms.at[term])[i]));
  }
  out[i] = Store<T>(sum);
}
