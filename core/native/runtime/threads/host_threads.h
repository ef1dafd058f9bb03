// The OpenMP threads of the surrounding program, if they compete with ours for processors.
#ifndef OPWRIGHT_RUNTIME_HOST_THREADS_H_
#define OPWRIGHT_RUNTIME_HOST_THREADS_H_

#include <pthread.h>

#include <cstdint>

namespace opwright {

// OpenMP's threads spin for milliseconds after each parallel region. A program that calls PyTorch
// and a plan alternately would have two thread pools that compete for the processors. So if jobs
// stall, or get no other thread, while other threads of this process are busy, jobs run on the
// OpenMP runtime that the process has loaded, because its threads are awake then. Load from other
// processes does not trigger this.
class HostThreads {
 public:
  // `GOMP_parallel` of GNU's runtime, which LLVM's and Intel's export, too: calls function(data) in
  // up to n_threads threads, including the caller's thread, and returns after all calls.
  using Parallel = void (*)(void (*function)(void* data), void* data, uint32_t n_threads,
                            uint32_t flags);

  HostThreads() = default;
  // Permanently runs all jobs of the calling thread on `parallel`.
  explicit HostThreads(Parallel parallel)
      : parallel_(parallel), caller_(pthread_self()), is_chosen_(true) {}

  // Returns the runtime for the calling thread's jobs, or null for the team's own threads. OpenMP
  // has separate threads for each calling thread, so only the thread that stalled uses them.
  Parallel OfCaller() const {
    return parallel_ != nullptr && pthread_equal(caller_, pthread_self()) != 0 ? parallel_
                                                                               : nullptr;
  }

  // Called after a job whose caller's shares took `own_ns`. Returns whether callers have run all
  // shares themselves for so long that the other threads seem to be without a processor.
  bool AfterJob(int64_t own_ns, bool was_alone) {
    if (own_ns > kBriefNs) alone_ns_ = was_alone ? alone_ns_ + own_ns : 0;
    if (alone_ns_ < kLongestAloneNs) return false;
    alone_ns_ = 0;
    return true;
  }

  // Called at `now_ns` after jobs of the calling thread have stalled. `others_ns` is the processor
  // time that threads of this process, except the caller and the team, have used so far. If
  // these threads have been busy since the last stall, the caller's jobs run on an OpenMP runtime
  // from now on: the runtime that was loaded after the current runtime, as in `FindNext`.
  void AfterStall(int64_t now_ns, int64_t others_ns);

  // Returns the OpenMP runtime that was loaded after `known`, or the first runtime for null and
  // after the last; null if no runtime is loaded.
  static Parallel FindNext(Parallel known);

  // Returns the OpenMP runtime that a loaded library is or is linked with; null for any other path.
  static Parallel FindIn(const char* path);

 private:
  static constexpr int64_t kBusyPart = 4;       // 1 / 4 of one processor counts as busy
  static constexpr int64_t kBriefNs = 100'000;  // in shorter jobs, a waking thread may be too late
  static constexpr int64_t kLongestAloneNs = 8'000'000;

  Parallel parallel_ = nullptr;
  pthread_t caller_{};
  bool is_chosen_ = false;
  int64_t alone_ns_ = 0;
  int64_t stall_ns_ = 0;   // time of the last stall of the caller's jobs
  int64_t others_ns_ = 0;  // processor time of other threads at that time
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_HOST_THREADS_H_
