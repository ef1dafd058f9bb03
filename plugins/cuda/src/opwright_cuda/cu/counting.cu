// Counts elements by kind, for bincount and histogram. Counts are integers, so the order of
// additions does not matter.
#include "kernel.h"

#include "opwright/functors/counting.h"

using namespace opwright_cuda;

// Adds 1 to counts[kind_of(i)] for each of n elements, except for kind -1. If all counts fit into
// shared memory, each block first counts there; a block counts fewer than 2**32 elements.
template <typename KindOf>
OW_INLINE void Count(uint64_t* counts, int64_t n, int64_t n_kinds, bool is_shared, KindOf kind_of) {
  OW_DYNAMIC_SHARED(uint32_t, in_block);
  if (!is_shared) {
    for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
      const int64_t kind = kind_of(i);
      if (kind >= 0) atomicAdd(&counts[kind], uint64_t(1));
    }
    return;
  }
  for (int64_t kind = threadIdx.x; kind < n_kinds; kind += blockDim.x) in_block[kind] = 0;
  __syncthreads();
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t kind = kind_of(i);
    if (kind >= 0) atomicAdd(&in_block[kind], uint32_t(1));
  }
  __syncthreads();
  for (int64_t kind = threadIdx.x; kind < n_kinds; kind += blockDim.x) {
    if (in_block[kind] != 0) atomicAdd(&counts[kind], static_cast<uint64_t>(in_block[kind]));
  }
}

template <typename Index>
__global__ void bincount(uint64_t* counts, const Index* x, int64_t n, int64_t length,
                         bool is_shared, Fault* fault, int32_t text) {
  Count(counts, n, length, is_shared, [=](int64_t i) {
    const auto id = static_cast<int64_t>(x[i]);
    if (id >= 0 && id < length) return id;
    Report(fault, text, id);
    return int64_t(-1);
  });
}

// This kernel is compiled without contraction so that edges match NumPy.
template <typename T>
__global__ void histogram(uint64_t* counts, const T* x, int64_t n,
                          opwright::functors::HistogramBins bins, bool is_shared) {
  const double scale = bins.Scale();
  Count(counts, n, bins.count, is_shared, [=](int64_t i) {
    const auto value = static_cast<double>(Load(x[i]));
    if (!bins.Holds(value)) return int64_t(-1);
    const auto edge_of = [=](int64_t bin) { return bins.Edge(bin); };
    return opwright::functors::BinOf(bins, scale, value, edge_of);
  });
}
