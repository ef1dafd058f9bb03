// Copies between a tensor and its parts along an axis.
#include "kernel.h"

using namespace opwright_cuda;

constexpr int kMaxParts = 32;

// One part, with `n` elements in rows of `row` elements, and the row strides of both tensors.
struct Part {
  void* out;
  const void* x;
  int64_t n;
  int64_t row;
  int64_t out_step;
  int64_t x_step;
  Divider by_row;
};

struct Parts {
  Part at[kMaxParts];
};

// Blocks with the same y index copy the same part. T is any type as wide as a contiguous chunk. Int
// is uint32_t if every part has fewer than 2**31 chunks.
template <typename T, typename Int>
__global__ void copy_parts(Parts parts) {
  const Part& part = parts.at[blockIdx.y];
  T* out = static_cast<T*>(part.out);
  const T* x = static_cast<const T*>(part.x);
  for (int64_t i = GlobalIndex(); i < part.n; i += GridThreads()) {
    int64_t number;
    if constexpr (sizeof(Int) == 4) {
      number = QuotientOf(static_cast<uint32_t>(i), part.by_row);
    } else {
      number = i / part.row;
    }
    const int64_t place = i - number * part.row;
    out[number * part.out_step + place] = x[number * part.x_step + place];
  }
}
