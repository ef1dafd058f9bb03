// Sums of squares of float tensors, computed in double to avoid overflow and to give float results
// full precision. The block size is fixed so that results do not depend on the number of threads.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_SQUARES_H_
#define OPWRIGHT_CPU_OPTIMIZERS_SQUARES_H_

#include <algorithm>
#include <cstdint>

#include "common/clones.h"

namespace opwright_cpu {

constexpr int64_t kSquaresBlock = 4096;

inline int64_t SquaresBlocks(int64_t n) { return (n + kSquaresBlock - 1) / kSquaresBlock; }

// Sums function(i)**2 over [begin, end), in an order that does not depend on the vector width.
template <typename Function>
OPWRIGHT_CPU_INLINE double SumOfSquares(int64_t begin, int64_t end, const Function& function) {
  constexpr int64_t kChains = 16;
  double sums[kChains] = {};
  int64_t i = begin;
  for (; i + kChains <= end; i += kChains) {
    for (int64_t k = 0; k < kChains; ++k) {
      const auto value = static_cast<double>(function(i + k));
      sums[k] += value * value;
    }
  }
  double total = 0;
  for (; i < end; ++i) {
    const auto value = static_cast<double>(function(i));
    total += value * value;
  }
  for (int64_t k = 0; k < kChains; ++k) total += sums[k];
  return total;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_SQUARES_H_
