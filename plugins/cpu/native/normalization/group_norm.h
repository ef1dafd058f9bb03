// Groups of channels that are normalized together. An array is [n, channels, inner]. A row is the
// data of one channel group of one item; a run is the data of one channel in a row.
#ifndef OPWRIGHT_CPU_NORMALIZATION_GROUP_NORM_H_
#define OPWRIGHT_CPU_NORMALIZATION_GROUP_NORM_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/clones.h"
#include "common/parallel.h"
#include "reduction/layout.h"

namespace opwright_cpu {

struct Groups {
  int64_t rows = 0;      // n * groups
  int64_t groups = 1;    // groups per item
  int64_t channels = 0;  // channels per group
  int64_t inner = 1;

  int64_t length() const { return channels * inner; }
  int64_t numel() const { return rows * length(); }
  int64_t Grain() const { return std::max<int64_t>(1, kElementGrain / length()); }
  // Returns the first channel of a row.
  int64_t FirstChannel(int64_t row) const { return row % groups * channels; }
};

// The statistics have the shape [n, groups].
inline Groups GroupsOf(const opwright::Shape& x, const opwright::Shape& statistics) {
  const std::vector<int64_t>& dims = x.dims();
  Groups groups;
  groups.groups = statistics.dims()[1];
  groups.rows = statistics.dims()[0] * groups.groups;
  groups.channels = groups.groups == 0 ? 0 : dims[1] / groups.groups;
  groups.inner = Product(dims, 2, dims.size());
  return groups;
}

// Calls write(i, c) for all elements i of a row; c is the channel within the row.
template <typename Write>
OPWRIGHT_CPU_INLINE void ForRuns(const Groups& groups, const Write& write) {
  const int64_t inner = groups.inner;
  if (inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < groups.channels; ++c) write(c, c);
    return;
  }
  for (int64_t c = 0; c < groups.channels; ++c) {
#pragma omp simd
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i) write(i, c);
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_NORMALIZATION_GROUP_NORM_H_
