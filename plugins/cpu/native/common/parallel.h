// Parallel loops on the host's threads. The plan sets the number of threads.
#ifndef OPWRIGHT_CPU_COMMON_PARALLEL_H_
#define OPWRIGHT_CPU_COMMON_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk/parallel.hpp>

namespace opwright_cpu {

// With fewer elements than this in a simple loop, a second thread costs more than it saves, because
// waking it and waiting for it takes a few microseconds.
constexpr int64_t kElementGrain = 32768;

// The share [begin, end) of n items that one of n_threads threads processes; it begins at a
// multiple of `step`.
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

// Type-erased versions of the functions below; they are compiled only once.
using CallPart = void (*)(const void* function, int32_t part, int32_t n_parts);
using CallRange = void (*)(const void* function, int64_t begin, int64_t end);
void RunParts(int32_t n_parts, CallPart call, const void* function);
void RunRanges(int32_t n_threads, int64_t n, int64_t grain, int64_t step, CallRange call,
               const void* function);

// Divides work into n_threads parts and calls function(part, n_parts) for each, in separate threads
// if processors are free. Parts must not wait for each other.
template <typename Function>
void Parallel(int32_t n_threads, const Function& function) {
  if (n_threads <= 1) {
    function(0, 1);
    return;
  }
  const auto call = [](const void* typed, int32_t part, int32_t n_parts) {
    (*static_cast<const Function*>(typed))(part, n_parts);
  };
  RunParts(n_threads, call, &function);
}

// Calls function(begin, end) on parts of [0, n); part sizes are multiples of `step` >= `grain`.
template <typename Function>
void ParallelFor(int32_t n_threads, int64_t n, int64_t grain, int64_t step,
                 const Function& function) {
  if (n_threads <= 1 || n < 2 * grain) {  // for little work, divisions would dominate
    if (n > 0) function(int64_t{0}, n);
    return;
  }
  const auto call = [](const void* typed, int64_t begin, int64_t end) {
    (*static_cast<const Function*>(typed))(begin, end);
  };
  RunRanges(n_threads, n, grain, step, call, &function);
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_PARALLEL_H_
