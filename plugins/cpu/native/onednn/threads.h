// Sets the number of threads that oneDNN reads from OpenMP when a primitive is created and run.
#ifndef OPWRIGHT_CPU_ONEDNN_THREADS_H_
#define OPWRIGHT_CPU_ONEDNN_THREADS_H_

#include <omp.h>
#include <pthread.h>

#include <cstdint>

#include <opwright/sdk/status.hpp>

namespace opwright_cpu {

namespace detail {

// Returns whether this process is a forked child. In a child, everything runs in one thread,
// because GNU's OpenMP would wait forever for threads that do not exist in the child.
OPWRIGHT_LOCAL inline bool& IsForkedChild() {
  static bool forked = [] {
    pthread_atfork(nullptr, nullptr, [] { IsForkedChild() = true; });
    return false;
  }();
  return forked;
}

}  // namespace detail

// While an object exists, OpenMP reports `n_threads` to the calling thread; other threads are not
// affected.
class ThreadCount {
 public:
  explicit ThreadCount(int32_t n_threads) : before_(omp_get_max_threads()) {
    const int32_t wanted = detail::IsForkedChild() ? 1 : n_threads;
    changed_ = wanted != before_;
    if (changed_) omp_set_num_threads(wanted);
  }
  ~ThreadCount() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int32_t before_;
  bool changed_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_THREADS_H_
