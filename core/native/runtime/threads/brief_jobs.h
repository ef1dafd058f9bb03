// Decides whether the jobs of a short plan wake sleeping threads.
#ifndef OPWRIGHT_RUNTIME_BRIEF_JOBS_H_
#define OPWRIGHT_RUNTIME_BRIEF_JOBS_H_

#include <cstdint>

namespace opwright {

// Waking a thread takes longer than its share of one short job saves. Waking pays off if short jobs
// follow each other so closely that the thread stays awake between them. So jobs run only in their
// callers' threads until, without a pause, they have taken as long as waking takes. The time lost
// is thus at most the cost of a single wrong guess.
class BriefJobs {
 public:
  // Whether a job that begins now should wake threads, which spin for `spin_ns` between two
  // jobs.
  bool PaysToWake(int64_t now_ns, int64_t spin_ns) {
    if (now_ns - end_ns_ > spin_ns) alone_ns_ = 0;
    return alone_ns_ >= kWakeNs;
  }

  // Called after a job that ran in one thread.
  void AfterAlone(int64_t begin_ns, int64_t end_ns) {
    alone_ns_ += end_ns - begin_ns;
    end_ns_ = end_ns;
  }

 private:
  static constexpr int64_t kWakeNs = 50'000;

  int64_t alone_ns_ = 0;
  int64_t end_ns_ = 0;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_BRIEF_JOBS_H_
