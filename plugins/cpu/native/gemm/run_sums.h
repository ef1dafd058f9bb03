// Weighted sums of runs: a few vectors at fixed offsets from each of many base addresses are
// multiplied by one factor per base address and accumulated in registers. The result is a product
// with a sparse matrix whose nonzero positions are known.
#ifndef OPWRIGHT_CPU_GEMM_RUN_SUMS_H_
#define OPWRIGHT_CPU_GEMM_RUN_SUMS_H_

#include <stdint.h>

namespace opwright_cpu {

constexpr int32_t kRunLanes = 16;

// The maximum number of runs per call; a factor and an address need registers, too.
constexpr int32_t kMostRuns = 7;

struct Run {
  int32_t from;
  int32_t to;
  int32_t lanes;
};

// For each group g of terms, from ends[g - 1] to ends[g], element l of run r:
//   to[to_places[g] + r.to + l] += sum of factors[i] * from[places[i] + r.from + l].
// Every run reads and writes kRunLanes elements; elements from r.lanes on keep their values.
struct RunSums {
  int64_t n_groups;
  const int32_t* ends;
  const float* factors;
  const int32_t* places;
  const float* from;
  float* to;
  const int32_t* to_places;
  const Run* runs;
  int32_t n_runs;  // at most kMostRuns
};

using RunSumsFn = void (*)(const RunSums&);

// Returns the fastest function for the current processor.
RunSumsFn BestRunSums();

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_RUN_SUMS_H_
