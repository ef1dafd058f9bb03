// Transposes tensors if input and output have different innermost axes.
#include "kernel.h"
#include "layout.h"

using namespace opwright_cuda;

constexpr int kLanes = 32;
constexpr int kRows = 8;  // rows of threads in a block

// Tiles are copied through shared memory so that both tensors are accessed in runs of `tile`
// elements. An extra column in shared memory avoids bank conflicts.
//
// The layout counts tiles. For each tile, the layout yields the offset in `out`, the offset in `x`,
// the first index along the innermost axis of x (`n_across` elements, stride `out_step` in out),
// and the first index along the innermost axis of out (`n_down` elements, with stride `x_step` in
// x).
template <typename T, typename Int, int tile>
__global__ void transpose_tiles(T* out, const T* x, int64_t n_tiles, int64_t n_across,
                                int64_t n_down, int64_t out_step, int64_t x_step,
                                Layout<4> layout) {
  OW_SHARED(T, kept, tile * (tile + 1));
  const int column = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(threadIdx.y);
  for (int64_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    int64_t begin[4];
    Locate<Int>(layout, number, begin);
    const T* from = x + begin[1];
    T* to = out + begin[0];
    const int64_t across = n_across - begin[2];
    const int64_t down = n_down - begin[3];
#pragma unroll
    for (int i = row; i < tile; i += kRows) {
#pragma unroll
      for (int j = column; j < tile; j += kLanes) {
        if (i < down && j < across) kept[i * (tile + 1) + j] = from[i * x_step + j];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = row; i < tile; i += kRows) {
#pragma unroll
      for (int j = column; j < tile; j += kLanes) {
        if (i < across && j < down) to[i * out_step + j] = kept[j * (tile + 1) + i];
      }
    }
    __syncthreads();  // before the next tile is stored
  }
}
