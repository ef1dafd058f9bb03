// Sums of runs: a few vectors at the same offsets from each of many beginnings, times
// a factor each, added up in registers. It is a product with a matrix with few nonzero elements in
// known places.
#ifndef OPWRIGHT_CPU_GEMM_RUN_SUMS_H_
#define OPWRIGHT_CPU_GEMM_RUN_SUMS_H_

#include <stdint.h>

namespace opwright_cpu {

constexpr int32_t kRunLanes = 16;

// Runs of one call: with a factor and an address, as many as there are registers for.
constexpr int32_t kMostRuns = 7;

struct Run {
  int32_t from;
  int32_t to;
  int32_t lanes;
};

// For each group g of terms, from ends[g - 1] to ends[g], element l of run r:
//   to[to_places[g] + r.to + l] += sum of factors[i] * from[places[i] + r.from + l].
// In every run kRunLanes elements are read and written; those from r.lanes on keep their values.
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

// The best one for the processor that this runs on.
RunSumsFn BestRunSums();

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_RUN_SUMS_H_
