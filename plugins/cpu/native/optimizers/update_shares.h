// Divides the elements of many parameters among threads, once per prepared kernel.
#ifndef OPWRIGHT_CPU_OPTIMIZERS_UPDATE_SHARES_H_
#define OPWRIGHT_CPU_OPTIMIZERS_UPDATE_SHARES_H_

#include <cstdint>
#include <vector>

namespace opwright_cpu {

// Elements [begin, end) of one parameter.
struct UpdateShare {
  uint32_t parameter;
  int64_t begin;
  int64_t end;
};

// Returns the shares of every thread. A large parameter is split by rows, as in the kernels that
// read it, so its cache lines stay with the same cores. A small parameter is assigned to the thread
// with the least work.
std::vector<std::vector<UpdateShare>> DealOut(const std::vector<std::vector<int64_t>>& shapes,
                                              int32_t n_threads);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_OPTIMIZERS_UPDATE_SHARES_H_
