#include "common/parallel.h"

namespace opwright_cpu {

void RunParts(int32_t n_parts, CallPart call, const void* function) {
  opwright::Parallel(n_parts, n_parts, [=](int32_t part) { call(function, part, n_parts); });
}

void RunRanges(int32_t n_threads, int64_t n, int64_t grain, int64_t step, CallRange call,
               const void* function) {
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(grain, 1));
  const auto count = static_cast<int32_t>(std::min<int64_t>(n_threads, most));
  Parallel(count, [&](int32_t thread, int32_t threads) {
    const Part part = PartOf(n, step, thread, threads);
    if (part.begin < part.end) call(function, part.begin, part.end);
  });
}

}  // namespace opwright_cpu
