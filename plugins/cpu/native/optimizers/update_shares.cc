#include "optimizers/update_shares.h"

#include <algorithm>

#include "common/parallel.h"
#include "movement/tensors.h"

namespace opwright_cpu {
namespace {

constexpr int64_t kUpdateGrain = 16384;  // minimum number of elements per thread

// Returns one thread's part of a large parameter, in complete rows if there are enough of them.
Part RowsOf(const std::vector<int64_t>& shape, int64_t numel, int32_t thread, int32_t n_threads) {
  const int64_t rows = shape.empty() ? 1 : shape[0];
  if (rows < n_threads) return PartOf(numel, 16, thread, n_threads);
  const Part part = PartOf(rows, 1, thread, n_threads);
  return Part{part.begin * (numel / rows), part.end * (numel / rows)};
}

}  // namespace

std::vector<std::vector<UpdateShare>> DealOut(const std::vector<std::vector<int64_t>>& shapes,
                                              int32_t n_threads) {
  int64_t total = 0;
  for (const std::vector<int64_t>& shape : shapes) total += Product(shape, 0, shape.size());
  const auto threads =
      static_cast<int32_t>(std::clamp<int64_t>(total / kUpdateGrain, 1, std::max(n_threads, 1)));
  std::vector<std::vector<UpdateShare>> shares(static_cast<size_t>(threads));
  std::vector<int64_t> loads(shares.size(), 0);
  const auto give = [&](size_t thread, size_t parameter, const Part& part) {
    if (part.begin == part.end) return;
    shares[thread].push_back(UpdateShare{static_cast<uint32_t>(parameter), part.begin, part.end});
    loads[thread] += part.end - part.begin;
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int64_t numel = Product(shapes[i], 0, shapes[i].size());
    if (numel < kUpdateGrain) {
      const auto least = std::min_element(loads.begin(), loads.end()) - loads.begin();
      give(static_cast<size_t>(least), i, Part{0, numel});
      continue;
    }
    for (int32_t thread = 0; thread < threads; ++thread) {
      give(static_cast<size_t>(thread), i, RowsOf(shapes[i], numel, thread, threads));
    }
  }
  return shares;
}

}  // namespace opwright_cpu
