// Whether the processors are free for more than one thread of a job.
#ifndef OPWRIGHT_RUNTIME_LOAD_WATCH_H_
#define OPWRIGHT_RUNTIME_LOAD_WATCH_H_

#include <algorithm>
#include <cstdint>

namespace opwright {

// A thread that has begun a share and loses its processor to another process gets it back some
// milliseconds later, and until then the caller of the job waits. Where that happens, jobs run in
// their callers' threads alone for a while, and longer each time that it happens again soon.
class LoadWatch {
 public:
  // Whether a job that begins now is shared.
  bool AllowsSharing(int64_t now_ns) const { return now_ns >= alone_until_ns_; }

  // After a job that was shared: how long its caller's own shares took, and how long it then waited
  // for those of others, until `now_ns`.
  void AfterJob(int64_t now_ns, int64_t own_ns, int64_t waited_ns) {
    if (waited_ns < kLeastStallNs + own_ns) return;
    const bool is_soon = now_ns - alone_until_ns_ < kSoon * pause_ns_;
    pause_ns_ = is_soon ? std::min(2 * pause_ns_, kLongestPauseNs) : kShortestPauseNs;
    alone_until_ns_ = now_ns + pause_ns_;
  }

 private:
  // What a share of the same size may take longer than the caller's without any other process.
  static constexpr int64_t kLeastStallNs = 200'000;
  static constexpr int64_t kShortestPauseNs = 1'000'000;
  static constexpr int64_t kLongestPauseNs = 64'000'000;
  static constexpr int64_t kSoon = 8;

  int64_t alone_until_ns_ = 0;
  int64_t pause_ns_ = kShortestPauseNs;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LOAD_WATCH_H_
