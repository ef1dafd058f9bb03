// Cumulative sums and products along lines, and the gradient of the product.
#include "kernel.h"

using namespace opwright_cuda;

template <typename Acc>
struct Adding {
  static OW_INLINE Acc Identity() { return Acc(0); }
  static OW_INLINE Acc Join(Acc x, Acc y) { return x + y; }
};
template <typename Acc>
struct Multiplying {
  static OW_INLINE Acc Identity() { return Acc(1); }
  static OW_INLINE Acc Join(Acc x, Acc y) { return x * y; }
};

constexpr int kScanThreads = 256;  // THREADS of kernels/lines.py

// One block processes each contiguous line tile by tile. Within a tile, the block scans in doubling
// steps. The order of additions depends only on the length.
template <typename Rule, typename Acc, typename In, typename Out>
__global__ void scan_rows(Out* out, const In* x, int64_t n_lines, int64_t length, int32_t exclusive,
                          int32_t reverse) {
  OW_SHARED(Acc, joined, kScanThreads);
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t line = blockIdx.x; line < n_lines; line += gridDim.x) {
    Acc carry = Rule::Identity();
    for (int64_t tile = 0; tile < length; tile += kScanThreads) {
      const int64_t i = tile + thread;
      const int64_t at = line * length + (reverse != 0 ? length - 1 - i : i);
      joined[thread] = i < length ? static_cast<Acc>(Load(x[at])) : Rule::Identity();
      __syncthreads();
      for (int step = 1; step < kScanThreads; step *= 2) {
        const Acc before = thread >= step ? joined[thread - step] : Rule::Identity();
        __syncthreads();
        joined[thread] = Rule::Join(before, joined[thread]);
        __syncthreads();
      }
      const int last = thread - (exclusive != 0 ? 1 : 0);
      const Acc value = last < 0 ? carry : Rule::Join(carry, joined[last]);
      if (i < length) out[at] = Store<Out>(value);
      carry = Rule::Join(carry, joined[kScanThreads - 1]);
      __syncthreads();
    }
  }
}

// One thread processes each line, so adjacent threads read adjacent elements.
template <typename Rule, typename Acc, typename In, typename Out>
__global__ void scan_columns(Out* out, const In* x, int64_t n_lines, int64_t length, int64_t inner,
                             int32_t exclusive, int32_t reverse) {
  for (int64_t line = GlobalIndex(); line < n_lines; line += GridThreads()) {
    const int64_t first = line / inner * length * inner + line % inner;
    Acc total = Rule::Identity();
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = first + (reverse != 0 ? length - 1 - i : i) * inner;
      const Acc all = Rule::Join(total, static_cast<Acc>(Load(x[at])));
      out[at] = Store<Out>(exclusive != 0 ? total : all);
      total = all;
    }
  }
}

// One thread processes each line. The gradient of an element is the product of the preceding
// elements times rest[i] = out_grad[i] + x[i + 1] * rest[i + 1]. If out[i] excludes x[i],
// out_grad[i + 1] replaces out_grad[i]. This avoids a division, which would fail for zeros.
// `before` is scratch memory with the shape of x.
template <typename Acc, typename T>
__global__ void cumprod_grad(T* x_grad, const T* x, const T* out_grad, Acc* before, int64_t n_lines,
                             int64_t length, int64_t inner, int32_t exclusive, int32_t reverse) {
  for (int64_t line = GlobalIndex(); line < n_lines; line += GridThreads()) {
    const int64_t start = line / inner * length * inner + line % inner;
    const int64_t first = start + (reverse != 0 ? (length - 1) * inner : 0);
    const int64_t step = reverse != 0 ? -inner : inner;
    Acc product = Acc(1);
    for (int64_t i = 0; i < length; ++i) {
      before[first + i * step] = product;
      product *= static_cast<Acc>(Load(x[first + i * step]));
    }
    Acc rest = Acc(0);
    for (int64_t i = length - 1; i >= 0; --i) {
      const int64_t at = first + i * step;
      const Acc grad = static_cast<Acc>(Load(out_grad[at]));
      if (exclusive == 0) rest += grad;
      x_grad[at] = Store<T>(before[at] * rest);
      rest *= static_cast<Acc>(Load(x[at]));
      if (exclusive != 0) rest += grad;
    }
  }
}
