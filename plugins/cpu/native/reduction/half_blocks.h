// Blocks of rows of 16-bit floats. After widening, a block fits into the L1 cache.
#ifndef OPWRIGHT_CPU_REDUCTION_HALF_BLOCKS_H_
#define OPWRIGHT_CPU_REDUCTION_HALF_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/half_rows.h"
#include "common/parallel.h"
#include "reduction/layout.h"

namespace opwright_cpu {

constexpr int64_t kHalfBytes = 2;

// Elements per block; a longer row is one block.
constexpr int64_t kWide = 4096;
// Maximum number of elements per row; a few float rows of this length fit into the L2 cache.
constexpr int64_t kWidestRow = 16384;

struct HalfBlocks {
  int64_t outer = 0;
  int64_t length = 0;
  int64_t at_once = 0;  // rows per block

  // Rejects longer rows, and lines of non-contiguous elements; other kernels support both.
  opwright::Status Make(const Lines& lines) {
    if (lines.inner != 1 || lines.length > kWidestRow) {
      return opwright::Status::Refused("supports contiguous rows of at most ", kWidestRow,
                                       " elements, got ", lines.length, " elements with stride ",
                                       lines.inner);
    }
    outer = lines.length == 0 ? 0 : lines.outer;
    length = lines.length;
    at_once = std::max<int64_t>(1, kWide / std::max<int64_t>(length, 1));
    return opwright::Status::Ok();
  }

  // Calls function(row, n_rows) for each block of the rows [begin, end).
  template <typename Function>
  void ForRows(int64_t begin, int64_t end, const Function& function) const {
    for (int64_t row = begin; row < end; row += at_once) {
      function(row, std::min(at_once, end - row));
    }
  }

  // Calls function(row, n_rows) for the blocks of all rows, in several threads.
  template <typename Function>
  void ForEach(int32_t n_threads, const Function& function) const {
    const int64_t grain = std::max(2 * kWide / std::max<int64_t>(length, 1), at_once);
    ParallelFor(n_threads, outer, grain, at_once,
                [&](int64_t begin, int64_t end) { ForRows(begin, end, function); });
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_HALF_BLOCKS_H_
