// The rows that the vectors of an index name, for gather_nd and scatter_nd.
#ifndef OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_
#define OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_

#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// A tensor as [count, row]: its first k axes, and the others.
struct IndexedRows {
  std::vector<int64_t> dims;  // the first k lengths
  int64_t count = 1;
  int64_t row = 1;
  int64_t n = 0;  // vectors of the index

  IndexedRows() = default;
  IndexedRows(const std::vector<int64_t>& x, const std::vector<int64_t>& index);

  size_t workspace_bytes() const { return static_cast<size_t>(n) * sizeof(int64_t); }

  // Writes the number of the row of each vector; an error if a position is out of range.
  opwright::Status Find(const opwright::InputTensor& index, int64_t* numbers,
                        int32_t n_threads) const;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_INDEXING_ROW_NUMBERS_H_
