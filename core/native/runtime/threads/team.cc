#include "runtime/threads/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks of signals are POSIX
#include <sys/syscall.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clocks of threads are POSIX
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/plan/step_timer.h"

namespace opwright {

namespace {

constexpr int32_t kSpinsPerLook = 32;  // spins between two readings of the clock

constexpr int32_t kMostShares = 65535;  // the limit of 16 bits

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename Word>
void SleepWhile(std::atomic<Word>* word, Word value) {
  static_assert(sizeof(std::atomic<Word>) == 4, "a futex has 32 bits");
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

template <typename Word>
void WakeOne(std::atomic<Word>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Spins until `ready` returns true, at most as long as the load allows.
template <typename Ready>
bool SpinUntil(const LoadWatch& load, const Ready& ready) {
  const int64_t end_ns = SteadyNs() + load.SpinNs();
  do {
    for (int32_t i = 0; i < kSpinsPerLook; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (SteadyNs() < end_ns);
  return false;
}

uint64_t Shares(uint32_t epoch, int64_t begin, int64_t end) {
  return static_cast<uint64_t>(epoch) << 32 | static_cast<uint64_t>(end) << 16 |
         static_cast<uint64_t>(begin);
}

// Takes the next share of a lane; returns -1 if no share is left or the job has ended.
int32_t Take(std::atomic<uint64_t>* shares, uint32_t epoch) {
  uint64_t word = shares->load(std::memory_order_acquire);
  for (;;) {
    const auto next = static_cast<int32_t>(word & 0xffff);
    const auto end = static_cast<int32_t>(word >> 16 & 0xffff);
    if (static_cast<uint32_t>(word >> 32) != epoch || next >= end) return -1;
    if (shares->compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      return next;
    }
  }
}

int64_t CpuNs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void RunAlone(int32_t n_shares, Team::Function function, void* data) {
  for (int32_t share = 0; share < n_shares; ++share) function(data, share);
}

std::atomic<Team*> process_team{nullptr};
thread_local bool work_is_brief = false;

void ForgetTeam() { process_team.store(nullptr, std::memory_order_relaxed); }

// Blocks all signals for threads that are started in its scope, since the main thread handles
// signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Team& Team::OfProcess() {
  static const int registered = pthread_atfork(nullptr, nullptr, ForgetTeam);
  static_cast<void>(registered);
  Team* team = process_team.load(std::memory_order_acquire);
  if (team != nullptr) return *team;
  auto* made = new Team;
  if (process_team.compare_exchange_strong(team, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *team;
}

Team::BriefWork::BriefWork() noexcept : was_brief_(std::exchange(work_is_brief, true)) {}
Team::BriefWork::~BriefWork() { work_is_brief = was_brief_; }

void Team::Run(int32_t n_threads, int32_t n_shares, Function function, void* data) noexcept {
  const bool is_shared = n_threads > 1 && n_shares > 1 && n_shares <= kMostShares &&
                         !has_job_.test_and_set(std::memory_order_acquire);
  if (!is_shared) return RunAlone(n_shares, function, data);
  RunTogether(n_threads, n_shares, function, data);
  has_job_.clear(std::memory_order_release);
}

void Team::UseHost(HostThreads host) noexcept {
  while (has_job_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  host_ = host;
  has_job_.clear(std::memory_order_release);
}

void Team::RunTogether(int32_t n_threads, int32_t n_shares, Function function,
                       void* data) noexcept {
  const int64_t begin_ns = SteadyNs();
  if (!load_.AllowsSharing(begin_ns)) {
    RunAlone(n_shares, function, data);
    return load_.AfterCalmJob(SteadyNs());
  }
  const HostThreads::Parallel parallel = host_.OfCaller();
  const int32_t n_wanted = std::min(n_threads, n_shares);
  const bool are_awake = parallel != nullptr || AreAwake(n_wanted);  // OpenMP's threads spin
  if (work_is_brief && !are_awake && !brief_jobs_.PaysToWake(begin_ns, load_.SpinNs())) {
    RunAlone(n_shares, function, data);
    const int64_t end_ns = SteadyNs();
    load_.AfterCalmJob(end_ns);
    return brief_jobs_.AfterAlone(begin_ns, end_ns);
  }
  const int32_t n_lanes = StartWorkers(n_wanted);
  function_ = function;
  data_ = data;
  Divide(n_lanes, n_shares);
  const Own own = parallel == nullptr ? RunOnWorkers(n_lanes) : RunOnHost(parallel, n_lanes);
  const int64_t end_ns = SteadyNs();
  bool has_stalled = false;
  if (own.has_waited) {
    has_stalled = load_.AfterJob(end_ns, own.end_ns - begin_ns, end_ns - own.end_ns);
  } else {
    load_.AfterCalmJob(own.end_ns);
  }
  const bool was_alone = host_.AfterJob(own.end_ns - begin_ns, own.n_done == n_shares);
  if (has_stalled || was_alone) host_.AfterStall(end_ns, OthersNs());
}

Team::Own Team::RunOnWorkers(int32_t n_lanes) noexcept {
  WakeWorkers(n_lanes);
  const int32_t n_done = RunShares(0, epoch_);
  const bool is_done = n_unfinished_.fetch_sub(n_done, std::memory_order_acq_rel) == n_done;
  const Own own{n_done, SteadyNs(), !is_done};
  if (!is_done) WaitForOthers();
  return own;
}

Team::Own Team::RunOnHost(HostThreads::Parallel parallel, int32_t n_lanes) noexcept {
  struct Job {
    Team* team;
    uint32_t epoch;
    pthread_t caller;
    Own own;
  };
  Job job{this, epoch_, pthread_self(), {}};
  const auto run = [](void* data) {
    // The choice of lane is arbitrary, as long as a thread always begins with the same lane.
    static std::atomic<int32_t> n_threads{0};
    static thread_local const int32_t lane = ++n_threads % kMostThreads;
    auto* its_job = static_cast<Job*>(data);
    const bool is_caller = pthread_equal(its_job->caller, pthread_self()) != 0;
    const int32_t n_done = its_job->team->RunShares(is_caller ? 0 : lane, its_job->epoch);
    if (is_caller) its_job->own = {n_done, SteadyNs(), true};
  };
  parallel(run, &job, static_cast<uint32_t>(n_lanes), 0);
  return job.own;
}

// Returns the processor time of this process's threads, except the caller's and the team's.
int64_t Team::OthersNs() const noexcept {
  int64_t ns = CpuNs(CLOCK_PROCESS_CPUTIME_ID) - CpuNs(CLOCK_THREAD_CPUTIME_ID);
  for (int32_t i = 1; i <= n_workers_.load(std::memory_order_relaxed); ++i) {
    clockid_t clock;
    if (pthread_getcpuclockid(lanes_[static_cast<size_t>(i)]->thread, &clock) == 0) {
      ns -= CpuNs(clock);
    }
  }
  return ns;
}

// Whether all threads of a job with n_lanes lanes are already awake.
bool Team::AreAwake(int32_t n_lanes) const noexcept {
  n_lanes = std::min(n_lanes, kMostThreads);
  if (n_workers_.load(std::memory_order_relaxed) + 1 < n_lanes) return false;
  for (int32_t i = 1; i < n_lanes; ++i) {
    if (lanes_[static_cast<size_t>(i)]->is_asleep.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

// Returns the number of threads including the caller's thread. The number is smaller than requested
// if the system refuses more threads.
int32_t Team::StartWorkers(int32_t n_wanted) noexcept {
  n_wanted = std::min(n_wanted, kMostThreads);
  int32_t n_lanes = n_workers_.load(std::memory_order_relaxed) + 1;
  if (n_lanes >= n_wanted) return n_wanted;
  const SignalsBlocked blocked;
  try {
    for (; n_lanes < n_wanted; ++n_lanes) {
      Lane*& lane = lanes_[static_cast<size_t>(n_lanes)];
      if (lane == nullptr) lane = new Lane;
      std::thread thread([this, own = n_lanes, seen = epoch_] { Work(own, seen); });
      lane->thread = thread.native_handle();
      thread.detach();
      n_workers_.store(n_lanes, std::memory_order_relaxed);
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): as many as there can be
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch)
  }
  return n_lanes;
}

void Team::Divide(int32_t n_lanes, int32_t n_shares) noexcept {
  ++epoch_;
  n_unfinished_.store(n_shares, std::memory_order_relaxed);
  n_lanes_.store(n_lanes, std::memory_order_release);
  for (int32_t i = 0; i < n_lanes; ++i) {
    lanes_[static_cast<size_t>(i)]->shares.store(
        Shares(epoch_, int64_t{n_shares} * i / n_lanes, int64_t{n_shares} * (i + 1) / n_lanes),
        std::memory_order_release);
  }
}

void Team::WakeWorkers(int32_t n_lanes) noexcept {
  for (int32_t i = 1; i < n_lanes; ++i) {
    Lane& lane = *lanes_[static_cast<size_t>(i)];
    lane.epoch.store(epoch_, std::memory_order_seq_cst);
    if (lane.is_asleep.load(std::memory_order_seq_cst)) WakeOne(&lane.epoch);
  }
}

// Runs the remaining shares of a job, beginning with the thread's own; returns their number.
int32_t Team::RunShares(int32_t own_lane, uint32_t epoch) noexcept {
  const int32_t n_lanes = n_lanes_.load(std::memory_order_acquire);
  int32_t n_done = 0;
  for (int32_t i = 0; i < n_lanes; ++i) {
    Lane& lane = *lanes_[static_cast<size_t>((own_lane + i) % n_lanes)];
    for (int32_t share; (share = Take(&lane.shares, epoch)) >= 0; ++n_done) function_(data_, share);
  }
  return n_done;
}

void Team::WaitForOthers() noexcept {
  const auto is_done = [this] { return n_unfinished_.load(std::memory_order_acquire) == 0; };
  if (SpinUntil(load_, is_done)) return;
  caller_is_asleep_.store(true, std::memory_order_seq_cst);
  for (int32_t left; (left = n_unfinished_.load(std::memory_order_seq_cst)) != 0;) {
    SleepWhile(&n_unfinished_, left);
  }
  caller_is_asleep_.store(false, std::memory_order_relaxed);
}

void Team::Work(int32_t own_lane, uint32_t seen) noexcept {
  Lane& lane = *lanes_[static_cast<size_t>(own_lane)];
  for (;;) {
    const auto has_more = [&] { return lane.epoch.load(std::memory_order_acquire) != seen; };
    if (!SpinUntil(load_, has_more)) {
      lane.is_asleep.store(true, std::memory_order_seq_cst);
      while (lane.epoch.load(std::memory_order_seq_cst) == seen) SleepWhile(&lane.epoch, seen);
      lane.is_asleep.store(false, std::memory_order_relaxed);
    }
    seen = lane.epoch.load(std::memory_order_acquire);
    const int32_t n_done = RunShares(own_lane, seen);
    if (n_done == 0) continue;
    const int32_t left = n_unfinished_.fetch_sub(n_done, std::memory_order_seq_cst) - n_done;
    if (left == 0 && caller_is_asleep_.load(std::memory_order_seq_cst)) WakeOne(&n_unfinished_);
  }
}

}  // namespace opwright
