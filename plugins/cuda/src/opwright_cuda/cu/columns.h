// Teams of threads for the columns of a row-major matrix. Created by opwright_cuda.kernels.lines.
#ifndef OPWRIGHT_CUDA_COLUMNS_H_
#define OPWRIGHT_CUDA_COLUMNS_H_

#include "lines.h"

namespace opwright_cuda {

constexpr int kRowsAtOnce = 4;  // rows that a thread reads together, to overlap their latencies

// Blocks per multiprocessor for kernels that only sum. With more blocks, the compiler would use
// fewer registers per thread and therefore serialize the row reads.
constexpr int kSummingBlocks = 2;

// A block processes a tile of columns in one part of the rows of a matrix. A thread processes `n`
// adjacent columns, read and written as a vector, in every `size`-th row of the part. `width`
// threads, a power of 2, cover adjacent columns. All columns are aligned for vectors of `n`.
template <int n>
struct ColumnTeam {
  static constexpr int kColumns = n;
  int64_t columns;
  int64_t column;  // first column of this thread
  int64_t slot;    // offset of the column in [outer, parts, columns]
  int64_t first;   // offset of the column's first element
  int64_t begin;   // first row of this thread
  int64_t end;
  int64_t step;  // elements from a row of this thread to its next row
  int thread;
  int size;
  int width;
  bool is_there;

  // The lines are the columns of the matrix.
  OW_INLINE ColumnTeam(const Lines& lines, int width)
      : columns(lines.inner),
        thread(static_cast<int>(threadIdx.x) / width),
        size(kTileThreads / width),
        width(width) {
    const int tile = width * n;
    const auto tiles = static_cast<uint32_t>((columns + tile - 1) / tile);
    const auto parts = static_cast<uint32_t>(lines.parts);
    const uint32_t part = blockIdx.x / tiles % parts;
    const int64_t outer = blockIdx.x / tiles / parts;
    const int lane = static_cast<int>(threadIdx.x) % width;
    column = static_cast<int64_t>(blockIdx.x % tiles) * tile + lane * n;
    is_there = column < columns;
    slot = (outer * parts + part) * columns + column;
    first = outer * lines.length * columns + column;
    begin = part * lines.chunk + thread;
    step = size * columns;
    end = is_there ? min((part + 1) * lines.chunk, lines.length) : 0;
  }

  // Calls function(Width<m>, row, offset) for all rows of this thread: first for `many` rows
  // together, which are `size` rows apart, and then for the remaining rows one by one.
  template <int many, typename Function>
  OW_INLINE void EachRow(Function function) const {
    int64_t row = begin;
    int64_t place = first + row * columns;
#pragma unroll 1
    for (; row + (many - 1) * size < end; row += many * size, place += many * step) {
      function(Width<many>(), row, place);
    }
#pragma unroll 1
    for (; row < end; row += size, place += step) function(Width<1>(), row, place);
  }
  // Reads the elements of the rows that begin at `place`.
  template <int many, typename T>
  OW_INLINE void Read(Vector<T, n> (&rows)[many], const T* x, int64_t place) const {
#pragma unroll
    for (int r = 0; r < many; ++r) {
      rows[r] = *reinterpret_cast<const Vector<T, n>*>(x + place + r * step);
    }
  }
  template <int many, typename T>
  OW_INLINE void Write(T* out, int64_t place, const Vector<T, n> (&rows)[many]) const {
#pragma unroll
    for (int r = 0; r < many; ++r) {
      StoreWhole(reinterpret_cast<Vector<T, n>*>(out + place + r * step), rows[r]);
    }
  }
  // Returns the elements of an array for the columns of this thread, or zeros if it is null.
  template <typename T>
  OW_INLINE Vector<Compute<T>, n> ReadColumns(const T* values) const {
    Vector<Compute<T>, n> made = {};
    if (values == nullptr || !is_there) return made;
    const auto stored = *reinterpret_cast<const Vector<T, n>*>(values + column);
#pragma unroll
    for (int k = 0; k < n; ++k) made.at[k] = Load(stored.at[k]);
    return made;
  }

  // Reduces over the threads of each column. The first threads get the results. A kernel may call
  // this function only once.
  template <typename T, typename Function>
  OW_INLINE void Reduce(T (&values)[n], Function function) const {
    OW_SHARED(T, shared, kTileThreads * n);
    T* own = shared + threadIdx.x;
#pragma unroll
    for (int k = 0; k < n; ++k) own[k * kTileThreads] = values[k];
    for (int rows = size / 2; rows > 0; rows /= 2) {
      __syncthreads();
      if (thread >= rows) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        T& value = own[k * kTileThreads];
        value = function(value, own[k * kTileThreads + rows * width]);
      }
    }
    if (thread != 0) return;
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] = own[k * kTileThreads];
  }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_COLUMNS_H_
