// Loops over the host's threads. The count comes from the plan.
#ifndef OPWRIGHT_CPU_COMMON_PARALLEL_H_
#define OPWRIGHT_CPU_COMMON_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk/parallel.hpp>

namespace opwright_cpu {

// Elements of a simple loop below which a second thread costs more than it saves: waking it and
// waiting for it takes a few microseconds.
constexpr int64_t kElementGrain = 32768;

// The part [begin, end) of n things that is thread's of n_threads; parts begin at multiples of
// `step`.
struct Part {
  int64_t begin;
  int64_t end;
};

inline Part PartOf(int64_t n, int64_t step, int32_t thread, int32_t n_threads) {
  const int64_t blocks = (n + step - 1) / step;
  const int64_t begin = blocks * thread / n_threads * step;
  const int64_t end = blocks * (thread + 1) / n_threads * step;
  return Part{std::min(begin, n), std::min(end, n)};
}

// Calls function(part, n_parts) for each of n_threads parts of some work, each in a separate thread
// if the processors are free. No part may wait for another one.
template <typename Function>
void Parallel(int32_t n_threads, const Function& function) {
  const int32_t n_parts = std::max(n_threads, 1);
  opwright::Parallel(n_parts, n_parts, [&](int32_t part) { function(part, n_parts); });
}

// Calls function(begin, end) on parts of [0, n), each of at least `grain` and a multiple of `step`.
template <typename Function>
void ParallelFor(int32_t n_threads, int64_t n, int64_t grain, int64_t step,
                 const Function& function) {
  if (n_threads <= 1 || n < 2 * grain) {  // no divisions if the work is smaller than they
    if (n > 0) function(int64_t{0}, n);
    return;
  }
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(grain, 1));
  const auto count = static_cast<int32_t>(std::min<int64_t>(n_threads, most));
  Parallel(count, [&](int32_t thread, int32_t threads) {
    const Part part = PartOf(n, step, thread, threads);
    if (part.begin < part.end) function(part.begin, part.end);
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_PARALLEL_H_
