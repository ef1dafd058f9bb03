// Copies and sums of rows at given positions, for gather, embedding and their gradients.
#ifndef OPWRIGHT_CPU_INDEXING_ROWS_H_
#define OPWRIGHT_CPU_INDEXING_ROWS_H_

#include <cstdint>

#include "indexing/positions.h"

namespace opwright_cpu {

// The sizes for out[o, i, :] = x[o, index[i], :] with x [outer, count, row] and n positions; a
// negative position counts from the end.
struct RowBlocks {
  int64_t outer;
  int64_t count;
  int64_t n;
  int64_t row;  // bytes per row to copy, or items per row to add
};

void CopyRowsAt(const RowBlocks& blocks, const char* x, const Positions& index, char* out,
                int32_t n_threads);

// Computes out[o, j, :] = sum of rows[o, i, :] over all i with index[i] == j, in the order of i.
// Each element of out belongs to one thread, so sums do not depend on the number of threads.
template <typename T>
void AddRowsAt(const RowBlocks& blocks, const T* rows, const Positions& index, T* out,
               int32_t n_threads);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_ROWS_H_
