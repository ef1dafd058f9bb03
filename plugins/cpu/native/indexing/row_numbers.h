// The rows selected by index vectors, for gather_nd and scatter_nd.
#ifndef OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_
#define OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// A tensor as [count, row]: the first k axes are merged into `count`, the other axes into `row`.
struct IndexedRows {
  std::vector<int64_t> dims;  // lengths of the first k axes
  int64_t count = 1;
  int64_t row = 1;
  int64_t n = 0;  // number of index vectors

  IndexedRows() = default;
  IndexedRows(const std::vector<int64_t>& x, const std::vector<int64_t>& index);

  size_t workspace_bytes() const { return static_cast<size_t>(n) * sizeof(int64_t); }

  // Writes the row number of each vector; returns an error if a position is out of range.
  opwright::Status Find(const opwright::InputTensor& index, int64_t* numbers,
                        int32_t n_threads) const;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_
