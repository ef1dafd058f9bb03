// Creates tensors described by attributes. Kernels that compute elements are compiled without
// contraction, so every product is rounded.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

constexpr int kChunkWords = 256;

// A chunk of a constant, passed as a kernel parameter.
struct Chunk {
  uint64_t words[kChunkWords];
};

__global__ void write_bytes(uint8_t* out, Chunk chunk, int32_t n) {
  const auto i = static_cast<int32_t>(GlobalIndex());
  if (i < n) out[i] = static_cast<uint8_t>(chunk.words[i / 8] >> (8 * (i % 8)));
}

// If `is_closed`, the last element is exactly `stop`.
template <typename T>
__global__ void write_steps(T* out, int64_t n, double start, double step, double stop,
                            bool is_closed) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const double number = static_cast<double>(i) * step + start;
    out[i] = Store<T>(is_closed && i + 1 == n ? stop : number);
  }
}

// Integers are added as unsigned integers so that they wrap around.
template <typename T>
__global__ void write_whole_steps(T* out, int64_t n, uint64_t start, uint64_t step) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    out[i] = static_cast<T>(start + static_cast<uint64_t>(i) * step);
  }
}

// The layout has the dimensions [rows, columns]; T is any type with the size of an element.
template <typename T, typename Int>
__global__ void eye(T* out, int64_t n, Layout<0> layout, int64_t k, T one) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const auto row = static_cast<int64_t>(QuotientByDim<Int>(layout, 0, static_cast<Int>(i)));
    const int64_t column = i - row * layout.dims[0];
    out[i] = column - row == k ? one : T(0);
  }
}
