#include "onednn/gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

// A tile of c stays in registers: kRows rows of two vectors of 64 bytes. Eight sums hide the
// latency of a fused multiply-add on two ports. A panel of b, kDepth rows of one tile's width,
// takes half of the first-level cache; a block of b and the rows of a that go with it fit the
// second.
constexpr int64_t kRows = 4;
constexpr int64_t kVectorBytes = 64;
constexpr int64_t kDepth = 128;
constexpr int64_t kWidthBytes = 4096;
constexpr int64_t kHeight = 96;

typedef float FloatVector __attribute__((vector_size(kVectorBytes)));
typedef double DoubleVector __attribute__((vector_size(kVectorBytes)));
template <typename T>
using Vector = std::conditional_t<std::is_same_v<T, float>, FloatVector, DoubleVector>;

template <typename T>
constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
template <typename T>
constexpr int64_t kColumns = 2 * kLanes<T>;
template <typename T>
constexpr int64_t kWidth = kWidthBytes / static_cast<int64_t>(sizeof(T));

// Memory is aligned to the item only, and in templates g++ forgets the attribute that would say so;
// the copy becomes one load.
template <typename T>
OPWRIGHT_CPU_INLINE void Load(const T* from, Vector<T>* to) {
  std::memcpy(to, from, sizeof(*to));
}

// One tile: c (+)= a b over `k`, `b` in rows of kColumns.
template <typename T, int64_t rows>
OPWRIGHT_CPU_INLINE void Tile(int64_t k, MatrixView<const T> a, const T* b, int64_t b_stride,
                              MatrixView<T> c, bool add) {
  Vector<T> sums[rows][2] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vector<T> left;
    Vector<T> right;
    Load(b + p * b_stride, &left);
    Load(b + p * b_stride + kLanes<T>, &right);
    const T* column = a.data + p * a.column_stride;
#pragma GCC unroll 8
    for (int64_t i = 0; i < rows; ++i) {
      const T factor = column[i * a.row_stride];
      sums[i][0] += factor * left;
      sums[i][1] += factor * right;
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < rows; ++i) {
    T* out = c.data + i * c.row_stride;
    for (int64_t half = 0; half < 2; ++half) {
      Vector<T> sum = sums[i][half];
      if (add) {
        Vector<T> before;
        Load(out + half * kLanes<T>, &before);
        sum += before;
      }
      std::memcpy(out + half * kLanes<T>, &sum, sizeof(sum));
    }
  }
}

// Rows of a in tiles: the tile of row i begins at data + i * tile_stride. In place that is the row
// stride; packed tiles lie one behind the other, each column by column.
template <typename T>
struct RowTiles {
  const T* data;
  int64_t tile_stride;
  int64_t row_stride;
  int64_t column_stride;

  RowTiles From(int64_t row) const {
    return {data + row * tile_stride, tile_stride, row_stride, column_stride};
  }
  MatrixView<const T> Tile() const { return {data, row_stride, column_stride}; }
};

// All tiles of one panel of b, kColumns wide.
template <typename T>
OPWRIGHT_CPU_INLINE void Panel(int64_t m, int64_t k, RowTiles<T> a, const T* b, int64_t b_stride,
                               MatrixView<T> c, bool add) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    Tile<T, kRows>(k, a.From(i).Tile(), b, b_stride, c.At(i, 0), add);
  }
  static_assert(kRows == 4, "the rows that are left over are one, two or three");
  if (m - i == 3) Tile<T, 3>(k, a.From(i).Tile(), b, b_stride, c.At(i, 0), add);
  if (m - i == 2) Tile<T, 2>(k, a.From(i).Tile(), b, b_stride, c.At(i, 0), add);
  if (m - i == 1) Tile<T, 1>(k, a.From(i).Tile(), b, b_stride, c.At(i, 0), add);
}

// Copies `columns` columns of b into rows of kColumns, filled up with zeros.
template <typename T>
OPWRIGHT_CPU_INLINE void PackPanel(int64_t k, int64_t columns, MatrixView<const T> b, T* to) {
  if (columns < kColumns<T>) std::memset(to, 0, static_cast<size_t>(k * kColumns<T>) * sizeof(T));
  for (int64_t p = 0; p < k; ++p) {
    const T* row = b.data + p * b.row_stride;
    T* out = to + p * kColumns<T>;
    if (columns == kColumns<T> && b.column_stride == 1) {
      std::memcpy(out, row, kColumns<T> * sizeof(T));
    } else {
      for (int64_t j = 0; j < columns; ++j) out[j] = row[j * b.column_stride];
    }
  }
}

// Copies rows of a into tiles of kRows.
template <typename T>
OPWRIGHT_CPU_INLINE RowTiles<T> PackRows(int64_t m, int64_t k, MatrixView<const T> a, T* to) {
  for (int64_t i = 0; i < m; ++i) {
    T* out = to + i / kRows * kRows * k + i % kRows;
    for (int64_t p = 0; p < k; ++p) {
      out[p * kRows] = a.data[i * a.row_stride + p * a.column_stride];
    }
  }
  return {to, k, 1, kRows};
}

// A last panel that is narrower than a tile goes through a buffer.
template <typename T>
OPWRIGHT_CPU_INLINE void NarrowPanel(int64_t m, int64_t k, int64_t columns, RowTiles<T> a,
                                     const T* b, MatrixView<T> c, bool add) {
  T tile[kRows * kColumns<T>];
  for (int64_t i = 0; i < m; i += kRows) {
    const int64_t rows = std::min(kRows, m - i);
    Panel<T>(rows, k, a.From(i), b, kColumns<T>, {tile, kColumns<T>, 1}, false);
    for (int64_t row = 0; row < rows; ++row) {
      T* out = c.At(i + row, 0).data;
      for (int64_t j = 0; j < columns; ++j) {
        out[j] = add ? out[j] + tile[row * kColumns<T> + j] : tile[row * kColumns<T> + j];
      }
    }
  }
}

// Whether rows of b are read where they lie: each is read once or twice only, or all fit the cache.
template <typename T>
bool ReadsInPlace(const GemmSize& size, MatrixView<const T> b) {
  return b.column_stride == 1 && (size.m <= 2 * kRows || size.k * size.n <= 4096);
}

// All rows of c by one block of b. What cannot be read in place is packed, panel after panel.
template <typename T>
OPWRIGHT_CPU_CLONES void Block(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b,
                               MatrixView<T> c, bool add, bool in_place, T* packed) {
  constexpr int64_t wide = kColumns<T>;
  const int64_t whole = size.n / wide * wide;
  const int64_t first = in_place ? whole : 0;
  for (int64_t j = first; j < size.n; j += wide) {
    PackPanel<T>(size.k, std::min(wide, size.n - j), b.At(0, j), packed + (j - first) * size.k);
  }
  T* packed_rows = packed + (size.n + wide - 1 - first) / wide * wide * size.k;
  for (int64_t i = 0; i < size.m; i += kHeight) {
    const int64_t rows = std::min(kHeight, size.m - i);
    RowTiles<T> tiles{a.At(i, 0).data, a.row_stride, a.row_stride, a.column_stride};
    if (!in_place) tiles = PackRows<T>(rows, size.k, a.At(i, 0), packed_rows);
    for (int64_t j = 0; j < whole; j += wide) {
      const T* panel = in_place ? b.At(0, j).data : packed + j * size.k;
      Panel<T>(rows, size.k, tiles, panel, in_place ? b.row_stride : wide, c.At(i, j), add);
    }
    if (whole < size.n) {
      NarrowPanel<T>(rows, size.k, size.n - whole, tiles, packed + (whole - first) * size.k,
                     c.At(i, whole), add);
    }
  }
}

// One row of c for a factor b whose columns are contiguous: the same vector with each column.
template <typename T>
OPWRIGHT_CPU_CLONES void Dots(int64_t n, int64_t k, const T* x, int64_t x_stride, const T* columns,
                              int64_t column_stride, T* out, int64_t out_stride) {
  for (int64_t j = 0; j < n; ++j) {
    const T* column = columns + j * column_stride;
    T sums[4 * kLanes<T>] = {};
    int64_t p = 0;
    for (; x_stride == 1 && p + 4 * kLanes<T> <= k; p += 4 * kLanes<T>) {
      for (int64_t lane = 0; lane < 4 * kLanes<T>; ++lane) {
        sums[lane] += x[p + lane] * column[p + lane];
      }
    }
    for (int64_t half = 2 * kLanes<T>; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    T rest = 0;
    for (; p < k; ++p) rest += x[p * x_stride] * column[p];
    out[j * out_stride] = sums[0] + rest;
  }
}

template <typename T>
void FloatGemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
               T* workspace) {
  if (size.m == 1 && b.row_stride == 1 && b.column_stride != 1) {
    Dots<T>(size.n, size.k, a.data, a.column_stride, b.data, b.column_stride, c.data, 1);
    return;
  }
  const bool in_place = ReadsInPlace<T>(size, b);
  const int64_t width = in_place ? size.n : kWidth<T>;
  for (int64_t j = 0; j < size.n; j += width) {
    for (int64_t p = 0; p < size.k; p += kDepth) {
      const GemmSize block{size.m, std::min(width, size.n - j), std::min(kDepth, size.k - p)};
      Block<T>(block, a.At(0, p), b.At(p, j), c.At(0, j), p > 0, in_place, workspace);
    }
  }
}

// Sums wrap around as NumPy's do, which only unsigned numbers of at least 32 bits may in C++.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
OPWRIGHT_CPU_CLONES void AddScaledRow(int64_t n, T factor, const T* row, int64_t stride, T* out) {
  for (int64_t j = 0; j < n; ++j) {
    out[j] = static_cast<T>(static_cast<Wrapping<T>>(out[j]) +
                            static_cast<Wrapping<T>>(factor) *
                                static_cast<Wrapping<T>>(row[j * stride]));
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES T WrappingDot(int64_t k, const T* x, int64_t x_stride, const T* y) {
  Wrapping<T> sum = 0;
  for (int64_t p = 0; p < k; ++p) {
    sum += static_cast<Wrapping<T>>(x[p * x_stride]) * static_cast<Wrapping<T>>(y[p]);
  }
  return static_cast<T>(sum);
}

template <typename T>
void IntegerGemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b,
                 MatrixView<T> c) {
  const bool by_columns = b.column_stride != 1 && b.row_stride == 1;
  for (int64_t i = 0; i < size.m; ++i) {
    T* out = c.At(i, 0).data;
    if (by_columns) {
      for (int64_t j = 0; j < size.n; ++j) {
        out[j] = WrappingDot<T>(size.k, a.At(i, 0).data, a.column_stride, b.At(0, j).data);
      }
      continue;
    }
    std::fill(out, out + size.n, T(0));
    for (int64_t p = 0; p < size.k; ++p) {
      AddScaledRow<T>(size.n, *a.At(i, p).data, b.At(p, 0).data, b.column_stride, out);
    }
  }
}

}  // namespace

uint64_t GemmWorkspaceBytes(const GemmSize& size, uint64_t item_bytes) {
  // A block of b in whole panels, and the rows of a that go with it in whole tiles. A product of
  // one column is computed as that of one row.
  const uint64_t wide = 2 * static_cast<uint64_t>(kVectorBytes) / item_bytes;
  const auto n = static_cast<uint64_t>(size.n == 1 ? size.m : size.n);
  const uint64_t row_bytes =
      std::min<uint64_t>((n + wide - 1) / wide * wide * item_bytes, kWidthBytes);
  const uint64_t depth = static_cast<uint64_t>(std::min(size.k, kDepth));
  return (row_bytes + kHeight * item_bytes) * depth;
}

template <typename T>
void Gemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          void* workspace) {
  if constexpr (std::is_floating_point_v<T>) {
    if (size.n == 1 && size.m > 1 && c.row_stride == 1) {
      // One column is one row of the transposed product, whose elements lie side by side.
      const GemmSize turned{1, size.m, size.k};
      FloatGemm<T>(turned, b.Transposed(), a.Transposed(), c.Transposed(),
                   static_cast<T*>(workspace));
      return;
    }
    FloatGemm<T>(size, a, b, c, static_cast<T*>(workspace));
  } else {
    IntegerGemm<T>(size, a, b, c);
  }
}

#define OPWRIGHT_CPU_GEMM(T)                                                                      \
  template void Gemm<T>(const GemmSize&, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, \
                        void*)
OPWRIGHT_CPU_GEMM(float);
OPWRIGHT_CPU_GEMM(double);
OPWRIGHT_CPU_GEMM(int8_t);
OPWRIGHT_CPU_GEMM(int16_t);
OPWRIGHT_CPU_GEMM(int32_t);
OPWRIGHT_CPU_GEMM(int64_t);
OPWRIGHT_CPU_GEMM(uint8_t);
OPWRIGHT_CPU_GEMM(uint16_t);
OPWRIGHT_CPU_GEMM(uint32_t);
OPWRIGHT_CPU_GEMM(uint64_t);
#undef OPWRIGHT_CPU_GEMM

}  // namespace opwright_cpu
