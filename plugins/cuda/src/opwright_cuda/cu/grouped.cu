// A matrix product for each group of rows. Groups end at ascending offsets, which only the GPU
// knows.
#include "tiles.h"

using namespace opwright_cuda;

// Returns the row at which a group ends, at least `begin`; reports an offset that does not ascend
// in [0, n].
template <typename Index>
OW_INLINE int64_t EndOf(const Index* offsets, int64_t group, int64_t begin, int64_t n, Fault* fault,
                        int32_t text) {
  const auto end = static_cast<int64_t>(offsets[group]);
  if (end >= begin && end <= n) return end;
  Report(fault, text, end);
  return begin;
}

// out[i] = x[i] @ weight[g] for each row i of group g; rows after the last group become 0. The
// strides are those of a matrix of `weight`. Each group begins with a new tile of rows, so there
// are at most n / 64 + groups + 1 of them.
template <typename T, typename Index>
__global__ void __launch_bounds__(kProductThreads)
    grouped_matmul(T* out, const T* x, const T* weight, const Index* offsets, int64_t groups,
                   int64_t n, int64_t k, int64_t m, int64_t step_stride, int64_t column_stride,
                   Fault* fault, int32_t text) {
  using Value = Compute<T>;
  constexpr int kTile = SquareTile::kRows;
  const auto column_tiles = static_cast<uint32_t>((m + kTile - 1) / kTile);
  const int64_t first_column = int64_t(blockIdx.x % column_tiles) * kTile;
  int64_t tile = blockIdx.x / column_tiles;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t group = 0;
  for (; group <= groups; ++group) {
    begin = end;
    end = group < groups ? EndOf(offsets, group, begin, n, fault, text) : n;
    const int64_t tiles = (end - begin + kTile - 1) / kTile;
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (group > groups) return;
  const int64_t first_row = begin + tile * kTile;
  const MatrixSource<T, Value> left{x, k, 1, true, end};
  const MatrixSource<T, Value> right{weight + group * k * m, column_stride, step_stride,
                                     step_stride == 1, m};
  TileSums<Value, SquareTile> sums(false);
  const int64_t n_steps = group < groups ? k : 0;
  MultiplyTiles(left, right, first_row, first_column, 0, n_steps, &sums);
  StoreTile(out, first_row, end, first_column, m, sums);
}

// out[g] = the transpose of the rows of x in group g, times these rows of y.
template <typename T, typename Index>
__global__ void __launch_bounds__(kProductThreads)
    grouped_outer(T* out, const T* x, const T* y, const Index* offsets, int64_t n, int64_t k,
                  int64_t m, Fault* fault, int32_t text) {
  using Value = Compute<T>;
  constexpr int kTile = SquareTile::kRows;
  const auto column_tiles = static_cast<uint32_t>((m + kTile - 1) / kTile);
  const uint32_t tiles = static_cast<uint32_t>((k + kTile - 1) / kTile) * column_tiles;
  const uint32_t tile = blockIdx.x % tiles;
  const int64_t group = blockIdx.x / tiles;
  const int64_t begin = group == 0 ? 0 : EndOf(offsets, group - 1, 0, n, fault, text);
  const int64_t end = EndOf(offsets, group, begin, n, fault, text);
  const int64_t first_row = int64_t(tile / column_tiles) * kTile;
  const int64_t first_column = int64_t(tile % column_tiles) * kTile;
  const MatrixSource<T, Value> left{x, 1, k, false, k};
  const MatrixSource<T, Value> right{y, 1, m, false, m};
  TileSums<Value, SquareTile> sums(false);
  MultiplyTiles(left, right, first_row, first_column, begin, end, &sums);
  StoreTile(out + group * k * m, first_row, k, first_column, m, sums);
}
