// Tensors that are sharded evenly over processes, as specified in opwright_dist.operators.shards.
#ifndef OPWRIGHT_MPI_SHARD_H_
#define OPWRIGHT_MPI_SHARD_H_

#include <algorithm>
#include <cstdint>

namespace opwright_mpi {

// The number of elements per shard is a multiple of this value.
constexpr int64_t kShardLine = 16;

// Returns the number of elements in a shard of `n` elements, including padding.
inline int64_t ShardLength(int64_t n, int64_t n_processes) {
  const int64_t step = kShardLine * n_processes;
  return (n + step - 1) / step * kShardLine;
}

// Returns how many of `n` elements belong to the shard of process `rank`.
inline int64_t ShardElements(int64_t n, int64_t n_processes, int64_t rank) {
  const int64_t length = ShardLength(n, n_processes);
  return std::clamp(n - rank * length, int64_t{0}, length);
}

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_SHARD_H_
