// Whether the processors are free for more than one thread of a job.
#ifndef OPWRIGHT_RUNTIME_LOAD_WATCH_H_
#define OPWRIGHT_RUNTIME_LOAD_WATCH_H_

#include <algorithm>
#include <cstdint>

namespace opwright {

// A thread that has begun a share and loses its processor to another process gets it back some
// milliseconds later, and until then the caller of the job waits. Where that takes more of the time
// than a second thread saves, jobs run in their callers' threads alone for a while, and longer each
// time that it is still so afterwards.
class LoadWatch {
 public:
  // Whether a job that begins now is shared.
  bool AllowsSharing(int64_t now_ns) const { return now_ns >= alone_until_ns_; }

  // After a job that was shared: how long its caller's own shares took, and how long it then waited
  // for those of others, until `now_ns`.
  void AfterJob(int64_t now_ns, int64_t own_ns, int64_t waited_ns) {
    shared_ns_ += own_ns + waited_ns;
    if (waited_ns > kLeastStallNs + own_ns / 2) stalled_ns_ += waited_ns;
    if (shared_ns_ < kWindowNs) return;
    const bool is_busy = stalled_ns_ > shared_ns_ / 5 * 2;
    shared_ns_ = stalled_ns_ = 0;
    if (!is_busy) {
      pause_ns_ = 0;
      return;
    }
    pause_ns_ = std::clamp(2 * pause_ns_, kShortestPauseNs, kLongestPauseNs);
    alone_until_ns_ = now_ns + pause_ns_;
  }

 private:
  // Of shared jobs, over which it is decided: a few time slices of the system.
  static constexpr int64_t kWindowNs = 8'000'000;
  // What shares of one size take longer than each other without any other process.
  static constexpr int64_t kLeastStallNs = 50'000;
  static constexpr int64_t kShortestPauseNs = 8'000'000;
  static constexpr int64_t kLongestPauseNs = 64'000'000;

  int64_t shared_ns_ = 0;
  int64_t stalled_ns_ = 0;
  int64_t pause_ns_ = 0;
  int64_t alone_until_ns_ = 0;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LOAD_WATCH_H_
