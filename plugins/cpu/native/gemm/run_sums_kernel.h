// Sums of runs for one instruction set; this header is included in the same way as gemm_kernel.h.
#ifndef OPWRIGHT_CPU_GEMM_RUN_SUMS_KERNEL_H_
#define OPWRIGHT_CPU_GEMM_RUN_SUMS_KERNEL_H_

#include "gemm/run_sums.h"
#include "gemm/vector_of.h"

namespace opwright_cpu {
namespace {

// Computes the sums of one group for kRuns runs, all in registers of kLanes elements. Adjacent runs
// are read at constant distances, which halves the number of instructions.
template <int kLanes, int kRuns, bool kSideBySide>
OPWRIGHT_CPU_TILE void SumGroup(const RunSums& call, const Run* runs, int64_t i, int64_t end,
                                float* to) {
  using Vector = typename VectorOf<float, kLanes>::Type;
  using Lanes = typename VectorOf<int32_t, kLanes>::Type;
  constexpr int kParts = kRunLanes / kLanes;
  Vector sums[kRuns][kParts] = {};
  int64_t begin[kRuns];  // in bytes, so an address needs one addition
#pragma GCC unroll 8
  for (int r = 0; r < kRuns; ++r) begin[r] = int64_t{runs[r].from} * int64_t{sizeof(float)};
  const float* first = kSideBySide ? call.from + runs[0].from : call.from;
  for (; i < end; ++i) {
    const float factor = call.factors[i];
    const float* from = first + call.places[i];
#pragma GCC unroll 8
    for (int r = 0; r < kRuns; ++r) {
      const float* run = from + r * kRunLanes;
      if constexpr (!kSideBySide) {
        run = reinterpret_cast<const float*>(reinterpret_cast<const char*>(from) + begin[r]);
      }
#pragma GCC unroll 8
      for (int v = 0; v < kParts; ++v) {
        sums[r][v] += factor * *reinterpret_cast<const Vector*>(run + v * kLanes);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRuns; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kParts; ++v) {
      Vector* part = reinterpret_cast<Vector*>(to + runs[r].to + v * kLanes);
      if (runs[r].lanes == kRunLanes) {
        *part += sums[r][v];
        continue;
      }
      Lanes lane;
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) lane[l] = v * kLanes + l;
      *part = lane < runs[r].lanes ? *part + sums[r][v] : *part;
    }
  }
}

template <int kLanes, int kRuns, bool kSideBySide>
OPWRIGHT_CPU_TILE void SumGroups(const RunSums& call, const Run* runs) {
  int64_t begin = 0;
  for (int64_t g = 0; g < call.n_groups; ++g) {
    const int64_t end = call.ends[g];
    float* to = call.to + call.to_places[g];
    if (begin < end) SumGroup<kLanes, kRuns, kSideBySide>(call, runs, begin, end, to);
    begin = end;
  }
}

// Processes the runs starting at `done`, at most kRuns at once.
template <int kLanes, int kRuns>
void SumRunsFrom(const RunSums& call, int32_t done) {
  for (; done + kRuns <= call.n_runs; done += kRuns) {
    const Run* runs = call.runs + done;
    if (runs[kRuns - 1].from - runs[0].from == (kRuns - 1) * kRunLanes) {
      SumGroups<kLanes, kRuns, true>(call, runs);
    } else {
      SumGroups<kLanes, kRuns, false>(call, runs);
    }
  }
  if constexpr (kRuns > 1) SumRunsFrom<kLanes, kRuns - 1>(call, done);
}

}  // namespace
}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_RUN_SUMS_KERNEL_H_
