// Reduces any axes of an array of 16-bit floats, in float.
#ifndef OPWRIGHT_CPU_REDUCTION_HALF_REDUCER_H_
#define OPWRIGHT_CPU_REDUCTION_HALF_REDUCER_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <vector>

#include "common/half_rows.h"
#include "common/half_sum.h"
#include "reduction/layout.h"
#include "reduction/reducer.h"

namespace opwright_cpu {

// `Rule` is Sum<float> or Extremum<float, max>. The innermost run of reduced axes is reduced while
// it is widened, block by block in the L1 cache; Reducer handles the small remainder. Arrays must
// not be empty.
template <typename Rule>
class HalfReducer {
 public:
  HalfReducer() = default;
  HalfReducer(DLDataType dtype, const std::vector<int64_t>& dims, const std::vector<bool>& reduced);

  uint64_t workspace_bytes() const;

  // Returns the results, which are in the workspace and bitwise identical for every number of
  // threads.
  float* Run(const void* x, void* workspace, int32_t n_threads) const;

 private:
  void ReduceRows(const char* x, int64_t begin, int64_t end, float* out) const;
  void ReduceChunk(const char* x, int64_t piece, float* out) const;
  void FoldRows(const char* x, int64_t n_rows, int64_t width, float* out) const;

  HalfRows rows_;
  HalfSum sum_ = nullptr;
  Lines lines_;           // lines along the innermost run
  int64_t chunk_ = 0;     // length of a chunk along a line
  int64_t n_chunks_ = 1;  // chunks per line
  int64_t n_strips_ = 1;  // strips of columns
  int64_t n_out_ = 0;
  Reducer<float, Rule> rest_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_HALF_REDUCER_H_
