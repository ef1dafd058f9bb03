// Sums of squares of float tensors, in double: nothing overflows, and the sum of a float tensor has
// all of its digits. Always added up in blocks of the same size, so that the number of threads
// changes nothing.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_SQUARES_H_
#define OPWRIGHT_CPU_OPTIMIZERS_SQUARES_H_

#include <algorithm>
#include <cstdint>

#include "common/clones.h"

namespace opwright_cpu {

constexpr int64_t kSquaresBlock = 4096;

inline int64_t SquaresBlocks(int64_t n) { return (n + kSquaresBlock - 1) / kSquaresBlock; }

// The sum of function(i)**2 over [begin, end), in chains whose order does not depend on the
// width of a vector.
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
