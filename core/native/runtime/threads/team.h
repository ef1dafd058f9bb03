// The team: threads of the process that all kernels share, which spin briefly for work, then sleep.
#ifndef OPWRIGHT_RUNTIME_TEAM_H_
#define OPWRIGHT_RUNTIME_TEAM_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/threads/brief_jobs.h"
#include "runtime/threads/host_threads.h"
#include "runtime/threads/load_watch.h"

namespace opwright {

// Runs the shares of one job at a time. The caller's thread participates and runs every share that
// no other thread has begun, so a job always ends, even if no other thread gets a processor.
//
// A job that is started while the team runs another job, or within a share, runs only in its
// caller's thread, since the processors are busy.
class Team {
 public:
  using Function = void (*)(void* data, int32_t share);

  static constexpr int32_t kMostThreads = 1024;

  explicit Team(HostThreads host = {}) : host_(host) { lanes_[0] = &callers_lane_; }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Returns the team of this process. The team is created at the first call and never freed, since
  // its threads may run while statics are destroyed. A forked child gets a new team.
  static Team& OfProcess();

  // Calls function(data, share) once for each share in [0, n_shares), on at most n_threads threads,
  // in any order; returns when all calls have returned. `function` must not throw, and no share may
  // wait for another share. If n_shares exceeds 65,535, all run in the caller's thread. Each thread
  // begins with the same shares in every job of the same size, so the data of a share stays in one
  // core's cache.
  void Run(int32_t n_threads, int32_t n_shares, Function function, void* data) noexcept;

  // Runs jobs on `host` from now on.
  void UseHost(HostThreads host) noexcept;

  // While an object of this class exists, jobs of its thread count as short, so few of them wake
  // sleeping threads.
  class BriefWork {
   public:
    BriefWork() noexcept;
    ~BriefWork();
    BriefWork(const BriefWork&) = delete;
    BriefWork& operator=(const BriefWork&) = delete;

   private:
    bool was_brief_;
  };

  // The number of threads that have been started; used by tests.
  int32_t n_workers() const { return n_workers_.load(std::memory_order_relaxed); }

 private:
  // The state of one thread of the team; lane 0 is the caller's thread. The struct has two cache
  // lines, because processors fetch lines in pairs.
  struct alignas(128) Lane {
    // The epoch of the job (32 bits), and the end (16 bits) and next (16 bits) of the untaken
    // shares.
    std::atomic<uint64_t> shares{0};
    std::atomic<uint32_t> epoch{0};  // epoch of the newest job that this thread may join
    std::atomic<bool> is_asleep{false};
    pthread_t thread{};
  };

  // The caller's part of a job: the number of shares that it ran, the end time of its last share,
  // and whether it then waited for other threads.
  struct Own {
    int32_t n_done = 0;
    int64_t end_ns = 0;
    bool has_waited = false;
  };

  void RunTogether(int32_t n_threads, int32_t n_shares, Function function, void* data) noexcept;
  bool AreAwake(int32_t n_lanes) const noexcept;
  int32_t StartWorkers(int32_t n_wanted) noexcept;
  void Divide(int32_t n_lanes, int32_t n_shares) noexcept;
  void WakeWorkers(int32_t n_lanes) noexcept;
  Own RunOnWorkers(int32_t n_lanes) noexcept;
  Own RunOnHost(HostThreads::Parallel parallel, int32_t n_lanes) noexcept;
  int64_t OthersNs() const noexcept;
  int32_t RunShares(int32_t own_lane, uint32_t epoch) noexcept;
  void WaitForOthers() noexcept;
  void Work(int32_t own_lane, uint32_t seen) noexcept;

  std::atomic_flag has_job_ = ATOMIC_FLAG_INIT;
  // The following members are written while has_job_ is locked, and read by threads that have taken
  // a share.
  Function function_ = nullptr;
  void* data_ = nullptr;
  uint32_t epoch_ = 0;
  LoadWatch load_;
  HostThreads host_;
  BriefJobs brief_jobs_;
  std::atomic<int32_t> n_lanes_{1};  // lanes of the job; a late thread may read the next job's
  std::atomic<int32_t> n_workers_{0};
  Lane callers_lane_;
  std::array<Lane*, kMostThreads> lanes_{};
  alignas(128) std::atomic<int32_t> n_unfinished_{0};
  std::atomic<bool> caller_is_asleep_{false};
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_TEAM_H_
