// How a training step splits its matrices among threads, and the sizes from which threads pay off.
//
// Each thread owns some rows of a weight [k, n], and multiplies and updates them in every kernel of
// this folder. If two products divided a weight differently, cache lines of the weight would move
// between cores in each step, at a higher cost than the products.
#ifndef OPWRIGHT_CPU_FULLY_CONNECTED_PARTITION_H_
#define OPWRIGHT_CPU_FULLY_CONNECTED_PARTITION_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/parallel.h"

namespace opwright_cpu {

// The granularity of the partition; the number of rows per thread is a multiple of it.
constexpr int64_t kOwnedRows = 16;

// The number of multiplications below which a second thread costs more than it saves.
constexpr int64_t kLeastWork = int64_t{1} << 19;

// The largest product computed here. oneDNN, which packs operands, is faster for larger products.
constexpr int64_t kMostWeights = int64_t{1} << 20;
constexpr int64_t kMostRows = 512;

// From this size on, a packed copy of a constant weight is worth the memory that it takes.
constexpr int64_t kLeastPacked = int64_t{1} << 17;

inline int32_t ThreadsFor(int64_t m, int64_t n, int64_t k, int32_t n_threads) {
  const int64_t most = std::min((k + kOwnedRows - 1) / kOwnedRows, m * n * k / kLeastWork);
  return static_cast<int32_t>(std::clamp<int64_t>(most, 1, n_threads));
}

inline Part OwnedRows(int64_t k, int32_t thread, int32_t n_threads) {
  return PartOf(k, kOwnedRows, thread, n_threads);
}

// Estimates the duration of a product in ns: 50 float32 multiply-adds or 30 weight bytes per ns.
inline uint64_t EstimateProduct(int64_t m, int64_t n, int64_t k, int64_t item, int32_t threads) {
  const int64_t compute = m * n * k / (item == 4 ? 50 : 25);
  const int64_t memory = n * k * item / 30;
  return static_cast<uint64_t>(std::max(compute, memory) / threads + (threads > 1 ? 2000 : 50));
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_FULLY_CONNECTED_PARTITION_H_
