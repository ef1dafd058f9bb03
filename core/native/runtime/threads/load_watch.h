// Decides whether enough processors are free to run a job on several threads.
#ifndef OPWRIGHT_RUNTIME_LOAD_WATCH_H_
#define OPWRIGHT_RUNTIME_LOAD_WATCH_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace opwright {

// If a thread that has begun a share loses its processor to another process, it gets the processor
// back some milliseconds later, while the caller of the job waits. If this takes more time than a
// second thread saves, jobs run only in their callers' threads for a while, and longer after each
// repetition.
//
// A spinning thread is ready immediately; waking a sleeping thread takes about ten microseconds of
// the waker's time on virtual machines. But if other threads need the processor, a spinning thread
// takes it from them, and the system may preempt the spinning thread later, when a job arrives.
//
// An idle virtual processor may resume milliseconds late. So a job after a pause does not measure
// the load, and measurements before the pause are discarded.
class LoadWatch {
 public:
  // Whether a job that begins now may be shared among threads.
  bool AllowsSharing(int64_t now_ns) const { return now_ns >= alone_until_ns_; }

  // Returns the time that a waiting thread spins before it sleeps. May be called in any thread.
  int64_t SpinNs() const {
    return is_busy_.load(std::memory_order_relaxed) ? kShortSpinNs : kLongSpinNs;
  }

  // Called after a job whose caller did not wait.
  void AfterCalmJob(int64_t now_ns) { end_ns_ = now_ns; }

  // Called at `now_ns` after a shared job, with the time that its caller's own shares took and the
  // time that the caller then waited for other shares. Returns whether jobs stalled; if so, sharing
  // pauses from now on.
  bool AfterJob(int64_t now_ns, int64_t own_ns, int64_t waited_ns) {
    const bool has_rested = now_ns - own_ns - waited_ns - end_ns_ > kRestNs;
    end_ns_ = now_ns;
    if (has_rested) {
      shared_ns_ = stalled_ns_ = pause_ns_ = 0;
      return false;
    }
    shared_ns_ += own_ns + waited_ns;
    if (waited_ns > kLeastStallNs + own_ns / 2) stalled_ns_ += waited_ns;
    if (shared_ns_ < kWindowNs) return false;
    const bool is_busy = stalled_ns_ > shared_ns_ / 5 * 2;
    is_busy_.store(is_busy, std::memory_order_relaxed);
    shared_ns_ = stalled_ns_ = 0;
    if (!is_busy) {
      pause_ns_ = 0;
      return false;
    }
    pause_ns_ = std::clamp(2 * pause_ns_, kShortestPauseNs, kLongestPauseNs);
    alone_until_ns_ = now_ns + pause_ns_;
    return true;
  }

 private:
  // The period after which the decision is updated: a few time slices of the system.
  static constexpr int64_t kWindowNs = 8'000'000;
  // How much the durations of equal shares vary if no other processes run.
  static constexpr int64_t kLeastStallNs = 50'000;
  static constexpr int64_t kShortSpinNs = 50'000;
  static constexpr int64_t kLongSpinNs = 200'000;
  static constexpr int64_t kShortestPauseNs = 8'000'000;
  static constexpr int64_t kLongestPauseNs = 64'000'000;
  static constexpr int64_t kRestNs = 50'000'000;

  int64_t shared_ns_ = 0;
  int64_t stalled_ns_ = 0;
  int64_t pause_ns_ = 0;
  int64_t end_ns_ = 0;  // end of the last job
  int64_t alone_until_ns_ = 0;
  std::atomic<bool> is_busy_{false};
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LOAD_WATCH_H_
