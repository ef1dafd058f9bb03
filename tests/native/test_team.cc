// Tests the thread team that kernels share, and the conditions under which it is not used.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/threads/brief_jobs.h"
#include "runtime/threads/host_threads.h"
#include "runtime/threads/load_watch.h"
#include "runtime/threads/team.h"
#include "tests.h"

namespace {

using opwright::BriefJobs;
using opwright::HostThreads;
using opwright::LoadWatch;
using opwright::Team;

// Counts how many times each share of a job has run.
struct Counts {
  explicit Counts(int32_t n) : runs(static_cast<size_t>(n)) {}

  static void Count(void* data, int32_t share) {
    static_cast<Counts*>(data)->runs[static_cast<size_t>(share)].fetch_add(1);
  }
  bool AllAre(int32_t times) const {
    for (const std::atomic<int32_t>& n : runs) {
      if (n.load() != times) return false;
    }
    return true;
  }

  std::vector<std::atomic<int32_t>> runs;
};

// Teams are never destroyed, because their threads run until the process exits.
Team& NewTeam() { return *new Team; }

void EveryShareRunsOnce() {
  Team& team = NewTeam();
  for (const int32_t n_threads : {1, 2, 3, 8}) {
    for (const int32_t n_shares : {0, 1, 2, 3, 7, 64, 65'535, 70'000}) {
      Counts counts(n_shares);
      team.Run(n_threads, n_shares, Counts::Count, &counts);
      CHECK(counts.AllAre(1));
    }
  }
  CHECK(team.n_workers() <= 7);
}

void JobsFollowEachOtherClosely() {
  Team& team = NewTeam();
  constexpr int32_t kJobs = 3000;
  Counts counts(5);
  for (int32_t job = 0; job < kJobs; ++job) team.Run(3, 5, Counts::Count, &counts);
  CHECK(counts.AllAre(kJobs));
}

void ThreadsThatSleepAreWoken() {
  Team& team = NewTeam();
  constexpr int32_t kJobs = 50;
  Counts counts(4);
  for (int32_t job = 0; job < kJobs; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than a thread spins
    team.Run(2, 4, Counts::Count, &counts);
  }
  CHECK(counts.AllAre(kJobs));
}

void AJobEndsWithItsLastShare() {
  Team& team = NewTeam();
  struct Slow {
    std::atomic<int32_t> n_ended{0};
    static void Run(void* data, int32_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      static_cast<Slow*>(data)->n_ended.fetch_add(1);
    }
  };
  for (int32_t job = 0; job < 20; ++job) {
    Slow slow;
    team.Run(4, 4, Slow::Run, &slow);
    CHECK_EQ(slow.n_ended.load(), 4);
  }
}

void JobsOfManyThreadsRunSideBySide() {
  Team& team = NewTeam();
  constexpr int32_t kJobs = 500;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&team] {
      Counts counts(9);
      for (int32_t job = 0; job < kJobs; ++job) team.Run(2, 9, Counts::Count, &counts);
      CHECK(counts.AllAre(kJobs));
    });
  }
  for (std::thread& caller : callers) caller.join();
}

void AJobWithinAShareRunsInItsThread() {
  Team& team = NewTeam();
  struct Outer {
    Team* team;
    std::atomic<int32_t> n_inner{0};
    static void Run(void* data, int32_t) {
      struct Inner {
        Outer* outer;
        std::thread::id thread;
        static void Run(void* inner, int32_t) {
          auto* self = static_cast<Inner*>(inner);
          CHECK(self->thread == std::this_thread::get_id());
          self->outer->n_inner.fetch_add(1);
        }
      };
      Inner inner{static_cast<Outer*>(data), std::this_thread::get_id()};
      inner.outer->team->Run(4, 4, Inner::Run, &inner);
    }
  };
  Outer outer{&team};
  team.Run(3, 3, Outer::Run, &outer);
  CHECK_EQ(outer.n_inner.load(), 12);
}

void AChildOfForkHasItsOwnTeam() {
  Counts before(4);
  Team::OfProcess().Run(2, 4, Counts::Count, &before);
#if defined(__SANITIZE_THREAD__)
  return;  // under ThreadSanitizer, a forked child of a multithreaded process cannot start threads
#endif
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Counts counts(4);
    Team::OfProcess().Run(2, 4, Counts::Count, &counts);
    _exit(counts.AllAre(1) && Team::OfProcess().n_workers() == 1 ? 0 : 1);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Records whether a thread other than the caller ran a share of a job.
struct Threads {
  Team* team;
  std::atomic<bool> another{false};
  std::thread::id caller = std::this_thread::get_id();
  static void Run(void* data, int32_t) {
    auto* self = static_cast<Threads*>(data);
    if (std::this_thread::get_id() != self->caller) self->another = true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  bool Shared() {
    another = false;
    team->Run(2, 2, Run, this);
    return another;
  }
};

void ABriefJobStartsAndWakesNoThread() {
  Team& team = NewTeam();
  Threads threads{&team};
  for (int32_t job = 0; job < 20; ++job) {
    const Team::BriefWork brief;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than a thread spins
    CHECK(!threads.Shared());
  }
  CHECK_EQ(team.n_workers(), 0);
  team.Run(2, 2, Threads::Run, &threads);  // outside of brief work
  CHECK_EQ(team.n_workers(), 1);
}

void ConsecutiveBriefJobsAreShared() {
  Team& team = NewTeam();
  Threads threads{&team};
  const Team::BriefWork brief;
  int32_t n_shared = 0;
  for (int32_t job = 0; job < 20'000 && n_shared < 3; ++job) n_shared += threads.Shared() ? 1 : 0;
  CHECK_EQ(n_shared, 3);
}

constexpr int64_t kUs = 1'000;

void JobsWakeThreadsOnceTheyHaveTakenAsLongAlone() {
  constexpr int64_t kSpin = 200 * kUs, kJob = 10 * kUs;
  BriefJobs jobs;
  int64_t now_ns = 1'000 * kUs;
  int32_t n_alone = 0;
  for (; !jobs.PaysToWake(now_ns, kSpin); ++n_alone, now_ns += kJob) {
    jobs.AfterAlone(now_ns, now_ns + kJob);
  }
  CHECK_EQ(n_alone, 5);
  CHECK(!jobs.PaysToWake(now_ns + 2 * kSpin, kSpin));  // by then, threads are asleep
  for (int32_t job = 0; job < 100; ++job, now_ns += 2 * kSpin) {
    CHECK(!jobs.PaysToWake(now_ns + 2 * kSpin, kSpin));
    jobs.AfterAlone(now_ns + 2 * kSpin, now_ns + 2 * kSpin + kJob);
  }
}

constexpr int64_t kMs = 1'000'000;

// Simulates 1 ms jobs that wait `waited_ns` for another thread, as long as sharing is allowed.
int64_t RunJobs(LoadWatch* load, int64_t begin_ns, int64_t length_ns, int64_t waited_ns) {
  int64_t now_ns = begin_ns;
  for (; now_ns < begin_ns + length_ns && load->AllowsSharing(now_ns); now_ns += kMs) {
    load->AfterJob(now_ns + kMs, kMs - waited_ns, waited_ns);
  }
  return now_ns;
}

void ShortWaitsDoNotStopSharing() {
  LoadWatch load;
  CHECK_EQ(RunJobs(&load, 0, 1000 * kMs, kMs / 4), 1000 * kMs);
  load.AfterJob(1003 * kMs, 50'000, 3 * kMs);  // a single longer wait
  CHECK_EQ(RunJobs(&load, 1003 * kMs, 1000 * kMs, kMs / 4), 2003 * kMs);
}

void LongWaitsMakeJobsRunInOneThread() {
  LoadWatch load;
  const int64_t end_ns = RunJobs(&load, 0, 1000 * kMs, kMs / 4 * 3);
  CHECK(end_ns <= 20 * kMs);
  CHECK(load.AllowsSharing(end_ns + 20 * kMs));
}

void PausesGrowWhileTheMachineIsBusy() {
  LoadWatch load;
  int64_t now_ns = 0, last_pause_ns = 0;
  for (int window = 0; window < 12; ++window) {
    now_ns = RunJobs(&load, now_ns, 1000 * kMs, kMs / 4 * 3);
    int64_t pause_ns = 0;
    for (; !load.AllowsSharing(now_ns + pause_ns); pause_ns += kMs / 4) {
      load.AfterCalmJob(now_ns + pause_ns);
    }
    CHECK(pause_ns >= last_pause_ns - kMs);
    CHECK(pause_ns <= 65 * kMs);
    last_pause_ns = pause_ns;
    now_ns += pause_ns;
  }
  CHECK(last_pause_ns >= 60 * kMs);
  now_ns = RunJobs(&load, now_ns, 100 * kMs, 0);  // calm
  now_ns = RunJobs(&load, now_ns, 1000 * kMs, kMs / 4 * 3);
  CHECK(load.AllowsSharing(now_ns + 10 * kMs));
}

void JobsAfterIdleTimeAreNotMeasured() {
  LoadWatch load;
  int64_t now_ns = 0;
  for (int job = 0; job < 1000; ++job, now_ns += 90 * kMs) {
    CHECK(load.AllowsSharing(now_ns));
    load.AfterJob(now_ns + 9 * kMs, kMs, 8 * kMs);  // the other thread came late
  }
  now_ns = RunJobs(&load, now_ns, 1000 * kMs, kMs / 4 * 3);  // consecutive jobs are measured
  CHECK(!load.AllowsSharing(now_ns));
}

// Emulates an OpenMP parallel region.
void RegionOfThreads(void (*function)(void*), void* data, uint32_t n_threads, uint32_t) {
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < n_threads; ++i) threads.emplace_back(function, data);
  function(data);
  for (std::thread& thread : threads) thread.join();
}

// Emulates a parallel region if OpenMP has no threads left.
void RegionOfTheCaller(void (*function)(void*), void* data, uint32_t, uint32_t) { function(data); }

// Emulates a parallel region whose other thread runs before the caller.
void RegionOfAnother(void (*function)(void*), void* data, uint32_t, uint32_t) {
  std::thread(function, data).join();
  function(data);
}

void EveryShareRunsOnceOnTheHostsThreads() {
  for (const HostThreads::Parallel region : {RegionOfThreads, RegionOfTheCaller}) {
    Team& team = *new Team(HostThreads(region));
    for (const int32_t n_shares : {2, 3, 7, 64, 65'535}) {
      Counts counts(n_shares);
      for (int32_t job = 0; job < 20; ++job) team.Run(3, n_shares, Counts::Count, &counts);
      CHECK(counts.AllAre(20));
    }
  }
}

void AThreadThatDidNotStallUsesTheThreadsOfTheTeam() {
  const HostThreads host(RegionOfTheCaller);
  CHECK(host.OfCaller() == RegionOfTheCaller);
  std::thread([&] { CHECK(host.OfCaller() == nullptr); }).join();
}

void OnlyBusyThreadsOfThisProcessMoveJobsToOpenMp() {
  if (dlopen("libgomp.so.1", RTLD_LAZY) == nullptr) return;
  const HostThreads::Parallel known = HostThreads::FindNext(nullptr);
  CHECK(known != nullptr);
  CHECK(HostThreads::FindNext(known) != nullptr);
  CHECK(HostThreads::FindIn("libgomp.so.1") != nullptr);
  CHECK(HostThreads::FindIn("libc.so.6") == nullptr);
  CHECK(HostThreads::FindIn("no such library") == nullptr);
  HostThreads host;
  int64_t others_ns = 500 * kMs;
  host.AfterStall(1'000 * kMs, others_ns);  // the state before the first stall is unknown
  CHECK(host.OfCaller() == nullptr);
  host.AfterStall(1'100 * kMs, others_ns += 10 * kMs);
  CHECK(host.OfCaller() == nullptr);
  host.AfterStall(1'200 * kMs, others_ns += 60 * kMs);
  CHECK(host.OfCaller() == known);
}

void FurtherStallsDoNotChangeAChosenHost() {
  HostThreads host(RegionOfTheCaller);
  host.AfterStall(1'000 * kMs, 500 * kMs);
  host.AfterStall(1'100 * kMs, 600 * kMs);
  std::thread([&host] { host.AfterStall(1'200 * kMs, 700 * kMs); }).join();
  CHECK(host.OfCaller() == RegionOfTheCaller);
}

void AHostIsChosenWhileJobsRun() {
  Team& team = NewTeam();
  Counts counts(4);
  std::thread chooser([&team] {
    for (int32_t n = 0; n < 200; ++n) team.UseHost(HostThreads(RegionOfTheCaller));
  });
  for (int32_t job = 0; job < 2000; ++job) team.Run(2, 4, Counts::Count, &counts);
  chooser.join();
  CHECK(counts.AllAre(2000));
  Threads threads{&team};
  team.UseHost(HostThreads(RegionOfAnother));
  const Team::BriefWork brief;
  CHECK(threads.Shared());  // OpenMP's threads are awake
  CHECK_EQ(team.n_workers(), 1);
}

void JobsWithoutAHelperAreDetectedAfterEightMilliseconds() {
  HostThreads host;
  int32_t n_jobs = 1;
  while (!host.AfterJob(kMs, true)) ++n_jobs;
  CHECK_EQ(n_jobs, 8);
  for (int32_t job = 0; job < 100; ++job) {
    CHECK(!host.AfterJob(10 * kUs, true));     // too short for a waking thread
    CHECK(!host.AfterJob(kMs, job % 4 != 0));  // another thread sometimes helps
  }
}

}  // namespace

void AddTeamTests(check::Tests* tests) {
  tests->push_back({"every share runs once", EveryShareRunsOnce});
  tests->push_back({"jobs follow each other", JobsFollowEachOtherClosely});
  tests->push_back({"threads that sleep are woken", ThreadsThatSleepAreWoken});
  tests->push_back({"a job ends with its last share", AJobEndsWithItsLastShare});
  tests->push_back({"jobs of many threads", JobsOfManyThreadsRunSideBySide});
  tests->push_back({"a job within a share", AJobWithinAShareRunsInItsThread});
  tests->push_back({"a child of fork has its own team", AChildOfForkHasItsOwnTeam});
  tests->push_back({"a brief job", ABriefJobStartsAndWakesNoThread});
  tests->push_back({"consecutive brief jobs are shared", ConsecutiveBriefJobsAreShared});
  tests->push_back({"when brief jobs wake", JobsWakeThreadsOnceTheyHaveTakenAsLongAlone});
  tests->push_back({"short waits", ShortWaitsDoNotStopSharing});
  tests->push_back({"long waits make jobs run in one thread", LongWaitsMakeJobsRunInOneThread});
  tests->push_back({"pauses grow", PausesGrowWhileTheMachineIsBusy});
  tests->push_back({"shares on the host's threads", EveryShareRunsOnceOnTheHostsThreads});
  tests->push_back({"a thread that did not stall uses the threads of the team",
                    AThreadThatDidNotStallUsesTheThreadsOfTheTeam});
  tests->push_back({"jobs move to OpenMP", OnlyBusyThreadsOfThisProcessMoveJobsToOpenMp});
  tests->push_back(
      {"further stalls do not change a chosen host", FurtherStallsDoNotChangeAChosenHost});
  tests->push_back({"a host chosen meanwhile", AHostIsChosenWhileJobsRun});
  tests->push_back({"jobs without a helper are detected after eight milliseconds",
                    JobsWithoutAHelperAreDetectedAfterEightMilliseconds});
  tests->push_back({"jobs after idle time are not measured", JobsAfterIdleTimeAreNotMeasured});
}
