// The product for one instruction set. A file that includes this header selects the instruction set
// with a pragma and defines the number of registers per tile. All functions are static, and no
// library header is included; otherwise, the linker might pick a function compiled for AVX-512 for
// all processors.
#ifndef OPWRIGHT_CPU_GEMM_GEMM_KERNEL_H_
#define OPWRIGHT_CPU_GEMM_GEMM_KERNEL_H_

#include "gemm/gemm.h"
#include "gemm/vector_of.h"

namespace opwright_cpu {
namespace {

// Vectors per cache line.
template <typename T, int kLanes>
constexpr int kLineVectors = kLanes * sizeof(T) < 64 ? 64 / (kLanes * sizeof(T)) : 1;

// Computes one tile of c, with kRows rows and kVectors vectors of kLanes columns, keeping all sums
// in registers. If panels are consecutive in memory (kIsLaid), prefetches the next panel, since a
// product with few rows would otherwise wait for memory.
template <typename T, int kLanes, int kRows, int kVectors, bool kIsLaid>
OPWRIGHT_CPU_TILE void Tile(const GemmCall<T>& call, const T* a, const T* b, int64_t ldb, T* c,
                            int64_t ldc) {
  using Vector = typename VectorOf<T, kLanes>::Type;
  Vector sums[kRows][kVectors] = {};
  const int64_t a_row = call.a_row;
  const int64_t a_col = call.a_col;
  for (int64_t p = 0; p < call.k; ++p) {
    Vector columns[kVectors];
    if constexpr (kIsLaid) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; v += kLineVectors<T, kLanes>) {
        __builtin_prefetch(b + (call.k + p) * ldb + v * kLanes, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      columns[v] = *reinterpret_cast<const Vector*>(b + p * ldb + v * kLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const T factor = a[i * a_row + p * a_col];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] += factor * columns[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vector* to = reinterpret_cast<Vector*>(c + i * ldc + v * kLanes);
      Vector value = call.alpha * sums[i][v];
      if (call.beta != T(0)) value += call.beta * *to;
      *to = value;
    }
  }
}

template <typename T, int kLanes, int kRows, int kVectors, bool kIsLaid>
OPWRIGHT_CPU_TILE int64_t TileRows(const GemmCall<T>& call, int64_t row, const T* b, int64_t ldb,
                                   T* c, int64_t ldc) {
  for (; row + kRows <= call.m; row += kRows) {
    Tile<T, kLanes, kRows, kVectors, kIsLaid>(call, call.a + row * call.a_row, b, ldb,
                                              c + row * ldc, ldc);
  }
  return row;
}

// Computes all rows of one panel, which is the first kVectors * kLanes columns of b and c.
template <typename T, int kLanes, int kRows, int kVectors, bool kIsLaid = false>
void Panel(const GemmCall<T>& call, const T* b, int64_t ldb, T* c, int64_t ldc) {
  int64_t row = TileRows<T, kLanes, kRows, kVectors, kIsLaid>(call, 0, b, ldb, c, ldc);
  if constexpr (kRows > 4) {
    row = TileRows<T, kLanes, 4, kVectors, kIsLaid>(call, row, b, ldb, c, ldc);
  }
  if constexpr (kRows > 2) {
    row = TileRows<T, kLanes, 2, kVectors, kIsLaid>(call, row, b, ldb, c, ldc);
  }
  TileRows<T, kLanes, 1, kVectors, kIsLaid>(call, row, b, ldb, c, ldc);
}

// Computes one panel in the layout of PanelGemm, of at most kVectors vectors.
template <typename T, int kLanes, int kRows, int kVectors>
void LaidPanel(const GemmCall<T>& call) {
  if (call.n == kLanes * kVectors) {
    Panel<T, kLanes, kRows, kVectors, true>(call, call.b, call.b_row, call.c, call.ldc);
  } else if constexpr (kVectors > 1) {
    LaidPanel<T, kLanes, kRows, kVectors - 1>(call);
  }
}

// Computes the single row of c for a panel of b that is in a cache.
template <typename T, int kLanes, int kVectors>
void CachedPanel(const GemmCall<T>& call) {
  if (call.n == kLanes * kVectors) {
    Tile<T, kLanes, 1, kVectors, false>(call, call.a, call.b, call.b_row, call.c, call.ldc);
  } else if constexpr (kVectors > 1) {
    CachedPanel<T, kLanes, kVectors - 1>(call);
  }
}

// Transposes 4 x 4 elements: column i of `from` becomes row i of `to`.
template <typename T>
OPWRIGHT_CPU_TILE void TransposeFour(const T* from, int64_t ld_from, T* to, int64_t ld_to) {
  using Vector = typename VectorOf<T, 4>::Type;
  using Mask = decltype(Vector{} < Vector{});
  const Vector r0 = *reinterpret_cast<const Vector*>(from);
  const Vector r1 = *reinterpret_cast<const Vector*>(from + ld_from);
  const Vector r2 = *reinterpret_cast<const Vector*>(from + 2 * ld_from);
  const Vector r3 = *reinterpret_cast<const Vector*>(from + 3 * ld_from);
  const Vector low01 = __builtin_shuffle(r0, r1, Mask{0, 4, 1, 5});
  const Vector high01 = __builtin_shuffle(r0, r1, Mask{2, 6, 3, 7});
  const Vector low23 = __builtin_shuffle(r2, r3, Mask{0, 4, 1, 5});
  const Vector high23 = __builtin_shuffle(r2, r3, Mask{2, 6, 3, 7});
  *reinterpret_cast<Vector*>(to) = __builtin_shuffle(low01, low23, Mask{0, 1, 4, 5});
  *reinterpret_cast<Vector*>(to + ld_to) = __builtin_shuffle(low01, low23, Mask{2, 3, 6, 7});
  *reinterpret_cast<Vector*>(to + 2 * ld_to) = __builtin_shuffle(high01, high23, Mask{0, 1, 4, 5});
  *reinterpret_cast<Vector*>(to + 3 * ld_to) = __builtin_shuffle(high01, high23, Mask{2, 3, 6, 7});
}

// Writes `width` columns of b to the rows of `to`; columns from `width` to `padded` are zeros.
template <typename T>
void CopyPanel(const GemmCall<T>& call, int64_t column, int64_t width, int64_t padded, T* to) {
  const T* from = call.b + column * call.b_col;
  const int64_t whole = call.b_row == 1 ? width / 4 * 4 : 0;
  const int64_t terms = call.k / 4 * 4;
  for (int64_t j = 0; j < whole; j += 4) {
    const T* four = from + j * call.b_col;
    for (int64_t p = 0; p < terms; p += 4) {
      TransposeFour(four + p, call.b_col, to + p * padded + j, padded);
    }
    for (int64_t p = terms; p < call.k; ++p) {
      for (int64_t i = 0; i < 4; ++i) to[p * padded + j + i] = four[i * call.b_col + p];
    }
  }
  for (int64_t p = 0; p < call.k; ++p) {
    const T* row = from + p * call.b_row;
    T* out = to + p * padded;
    if (call.b_col == 1) {
      for (int64_t j = whole; j < width; ++j) out[j] = row[j];
    } else {
      for (int64_t j = whole; j < width; ++j) out[j] = row[j * call.b_col];
    }
    for (int64_t j = width; j < padded; ++j) out[j] = T(0);
  }
}

// If `a` has at least this many rows, copying a panel of b is cheap. Each row of the copy consists
// of complete cache lines.
constexpr int64_t kRowsToCopyFor = 96;

// Computes one panel of `width` columns; the sums run over all call.k terms.
template <typename T, int kLanes, int kRows, int kVectors>
void AnyPanel(const GemmCall<T>& call, int64_t column, int64_t width) {
  constexpr int64_t kWidth = int64_t(kLanes) * kVectors;
  T* c = call.c + column;
  const T* b = call.b + column * call.b_col;
  int64_t ldb = call.b_row;
  if (call.b_col != 1 || width < kWidth || call.m >= kRowsToCopyFor) {
    CopyPanel(call, column, width, kWidth, call.scratch);
    b = call.scratch;
    ldb = kWidth;
  }
  if (width == kWidth) {
    Panel<T, kLanes, kRows, kVectors>(call, b, ldb, c, call.ldc);
    return;
  }
  // Computes a narrow last panel in full vectors, a few rows at a time, and keeps only its columns.
  T narrow[kRows * kWidth];
  GemmCall<T> rows = call;
  rows.beta = T(0);
  for (int64_t row = 0; row < call.m; row += kRows) {
    rows.m = row + kRows < call.m ? kRows : call.m - row;
    rows.a = call.a + row * call.a_row;
    Panel<T, kLanes, kRows, kVectors>(rows, b, ldb, narrow, kWidth);
    for (int64_t i = 0; i < rows.m; ++i) {
      T* to = c + (row + i) * call.ldc;
      for (int64_t j = 0; j < width; ++j) {
        const T kept = call.beta != T(0) ? call.beta * to[j] : T(0);
        to[j] = kept + narrow[i * kWidth + j];
      }
    }
  }
}

// Computes panels of kVectors vectors, then of one vector, then a narrower panel for the rest of n.
template <typename T, int kLanes, int kRows, int kVectors>
void AllPanels(const GemmCall<T>& call) {
  int64_t column = 0;
  for (; column + kLanes * kVectors <= call.n; column += kLanes * kVectors) {
    AnyPanel<T, kLanes, kRows, kVectors>(call, column, kLanes * kVectors);
  }
  for (; column + kLanes < call.n; column += kLanes) {
    AnyPanel<T, kLanes, kRows, 1>(call, column, kLanes);
  }
  const int64_t left = call.n - column;
  if (left <= 0) return;
  if constexpr (kLanes > 8) {
    if (left <= 8) {
      AnyPanel<T, 8, kRows, 1>(call, column, left);
      return;
    }
  }
  AnyPanel<T, kLanes, kRows, 1>(call, column, left);
}

// Terms and rows per block: a panel of b fits into the L1 cache, a block of `a` into the L2 cache.
constexpr int64_t kDepth = 128;
constexpr int64_t kHeight = 240;

template <typename T, int kLanes, int kRows, int kVectors>
void Gemm(const GemmCall<T>& call) {
  static_assert(kLanes * kVectors <= kPanelWidth, "scratch memory holds one panel");
  static_assert(kDepth + kDepth / 2 <= kPanelDepth, "scratch memory holds one panel");
  GemmCall<T> part = call;
  int64_t done = 0;
  do {
    part.k = call.k - done <= kPanelDepth ? call.k - done : kDepth;
    for (int64_t row = 0; row < call.m; row += kHeight) {
      part.m = call.m - row < kHeight ? call.m - row : kHeight;
      part.a = call.a + row * call.a_row + done * call.a_col;
      part.c = call.c + row * call.ldc;
      AllPanels<T, kLanes, kRows, kVectors>(part);
    }
    done += part.k;
    part.b += part.k * call.b_row;
    part.beta = T(1);
  } while (done < call.k);
}

}  // namespace
}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_GEMM_KERNEL_H_
