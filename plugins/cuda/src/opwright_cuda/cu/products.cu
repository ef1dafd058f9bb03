// Matrix products that cuBLASLt does not support: integer products, which wrap around, and products
// with batches or alignments that it rejects.
#include "functions.h"
#include "tiles.h"

using namespace opwright_cuda;

// The accumulator type of a product of elements of type T.
template <typename T>
using SumOfProducts = Wrapping<Compute<T>>;

// The row, column and batch strides of one operand, in elements.
struct Strides {
  int64_t row;
  int64_t column;
  int64_t stack[kMaxRank];
};

// The product out[s, i, j] = sum over k of x[s, i, k] * y[s, k, j]. `dims` are the batch
// dimensions, last dimension first.
struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  Strides x;
  Strides y;
  uint32_t dims[kMaxRank];
  int32_t rank;
};

template <typename Out, typename T>
__global__ void __launch_bounds__(kProductThreads)
    multiply(Out* out, const T* x, const T* y, Product product) {
  using Value = SumOfProducts<T>;
  // Grid indices fit into 32 bits, and 32-bit division is much faster.
  constexpr int kTile = SquareTile::kRows;
  const auto column_tiles = static_cast<uint32_t>((product.n + kTile - 1) / kTile);
  const uint32_t tiles = static_cast<uint32_t>((product.m + kTile - 1) / kTile) * column_tiles;
  const uint32_t tile = blockIdx.x % tiles;
  const int64_t stack = blockIdx.x / tiles;
  auto rest = static_cast<uint32_t>(stack);
  for (int d = 0; d < product.rank; ++d) {
    const int64_t place = rest % product.dims[d];
    rest /= product.dims[d];
    x += place * product.x.stack[d];
    y += place * product.y.stack[d];
  }
  const int64_t first_row = int64_t(tile / column_tiles) * kTile;
  const int64_t first_column = int64_t(tile % column_tiles) * kTile;
  const MatrixSource<T, Value> left{x, product.x.row, product.x.column, product.x.column == 1,
                                    product.m};
  const MatrixSource<T, Value> right{y, product.y.column, product.y.row, product.y.row == 1,
                                     product.n};
  TileSums<Value, SquareTile> sums(false);
  MultiplyTiles(left, right, first_row, first_column, 0, product.k, &sums);
  StoreTile(out + stack * product.m * product.n, first_row, product.m, first_column, product.n,
            sums);
}
