#include "group.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <sstream>

#include "library.h"
#include "mpi_reduction.h"

namespace opwright_mpi {

using opwright::Status;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 7;
constexpr auto kPollInterval = std::chrono::milliseconds(1);
constexpr auto kAnswerTime = std::chrono::milliseconds(500);
// Iterations of busy waiting before a process yields, since other processes need the core if there
// are more processes than cores.
constexpr int kSpins = 50;
constexpr int kFewSpins = 2;
// After waiting this long, a process sleeps between checks, since the other processes will take
// much longer.
constexpr auto kPatience = std::chrono::milliseconds(50);
constexpr long kNapNs = 50'000;

std::atomic<double> deadline_seconds{60.0};

std::map<std::string, std::unique_ptr<Group>>& Groups() {
  // Never freed, since requests can be active while the process exits.
  static auto* groups = new std::map<std::string, std::unique_ptr<Group>>;
  return *groups;
}

std::mutex groups_mutex;

std::string RankList(const std::vector<int>& ranks) {
  std::ostringstream text;
  text << (ranks.size() == 1 ? "rank " : "ranks ");
  for (size_t i = 0; i < ranks.size(); ++i) {
    text << (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") << ranks[i];
  }
  return text.str();
}

// Hints to the processor that this is a spin loop.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Assumes that all processes run on one machine; on several machines, yielding costs little.
int SpinsOf(int n_processes) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool is_known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
  return is_known && CPU_COUNT(&cores) < n_processes ? kFewSpins : kSpins;
}

// A message between two processes that is not part of a collective; kept until it has been sent.
struct Letter {
  int64_t content[2];
  Request request;
};

}  // namespace

void SetDeadline(double seconds) { deadline_seconds.store(seconds); }

Group::Group(std::string group_name, Comm base) : name(std::move(group_name)) {
  const Library& mpi = Mpi();
  mpi.Comm_rank(base, &rank);
  mpi.Comm_size(base, &size);
  for (Comm* comm : {&first, &second, &control}) {
    mpi.Comm_dup(base, comm);
    mpi.Comm_set_errhandler(*comm, ErrorsReturn());
  }
  peers_.resize(static_cast<size_t>(size));
  int n_processes = 0;
  mpi.Comm_size(CommWorld(), &n_processes);
  n_spins_ = SpinsOf(n_processes);
}

Status Group::Break(const std::string& reason) {
  if (unusable_.empty()) unusable_ = reason;
  return Status::Error(reason);
}

Status Group::FailMpi(const char* who, int code) {
  return Break(
      opwright::detail::Concat(who, ": group '", name, "': MPI failed: ", ErrorText(code)));
}

Status Group::Check(const char* who) const {
  const char* reason = FindUnusable();
  if (reason != nullptr) return Status::Error(who, ": ", reason);
  if (!unusable_.empty()) {
    return Status::Error(
        who, ": group '", name,
        "' is unusable since a collective failed; restart all processes from the last "
        "checkpoint. The failure was: ",
        unusable_);
  }
  return Status::Ok();
}

Status Group::Started(const char* who, int code) {
  if (code != kSuccess) return FailMpi(who, code);
  ++n_started_;
  return Status::Ok();
}

void Group::Remove(const MpiReduction* reduction) {
  active_.erase(std::remove(active_.begin(), active_.end(), reduction), active_.end());
}

int Group::Progress() {
  // Advances reductions in order, since the second phase of a reduction starts after the second
  // phases of earlier reductions.
  for (size_t i = 0; i < active_.size();) {
    MpiReduction* reduction = active_[i];
    const int code = reduction->Advance();
    if (code != kSuccess) return -code;
    if (reduction->IsDone()) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (reduction->HasBegunLastPart()) {
      ++i;
    } else {
      break;
    }
  }
  return 0;
}

Status Group::Wait(const char* who, const Poll& poll, Request* request) {
  return Wait(who, poll, [request] {
    int done = 0;
    const int code = Mpi().Test(request, &done, nullptr);
    return code == kSuccess ? done : -code;
  });
}

Status Group::Wait(const char* who, const Poll& poll, const std::function<int()>& done) {
  int spins = 0;
  Clock::time_point begin = Clock::now();  // time of the last progress
  Clock::time_point next_poll = begin + kPollInterval;
  while (true) {
    const int answer = done();
    if (answer == 1) return Status::Ok();
    if (answer < 0) return FailMpi(who, -answer);
    if (answer == 0) {
      if (++spins < n_spins_) {
        Pause();
        continue;
      }
      sched_yield();
    }
    const Clock::time_point now = Clock::now();
    if (answer == 2) {
      spins = 0;
      begin = now;
    }
    if (now - begin > kPatience) {
      const timespec nap{0, kNapNs};
      nanosleep(&nap, nullptr);
    }
    if (now < next_poll) continue;
    next_poll = now + kPollInterval;
    Status status = poll();
    if (!status.ok()) {
      static_cast<void>(Break(
          opwright::detail::Concat(who, ": group '", name, "': interrupted while it waited")));
      return status;
    }
    Receive();
    const std::string ended = FindEnded();
    const bool is_late = now - begin > std::chrono::duration<double>(
                                           deadline_seconds.load(std::memory_order_relaxed));
    if (!ended.empty() || is_late) {
      // The result may have arrived since the last check.
      const int last = done();
      if (last == 1) return Status::Ok();
      if (last == 2) continue;
      const std::string missing = ended.empty() ? FindMissing(poll) : ended;
      return Break(opwright::detail::Concat(who, ": group '", name, "': ", missing));
    }
  }
}

void Group::Send(int to, Message message) {
  static auto* letters = new std::deque<Letter>;  // a message that never arrives stays in memory
  while (!letters->empty()) {
    int done = 0;
    Mpi().Test(&letters->front().request, &done, nullptr);
    if (done == 0) break;
    letters->pop_front();
  }
  Letter& letter = letters->emplace_back();
  letter.content[0] = message;
  letter.content[1] = n_started_;
  if (Mpi().Isend(letter.content, 2, TypeInt64(), to, kTag, control, &letter.request) != kSuccess) {
    letters->pop_back();
  }
}

void Group::Receive() {
  while (true) {
    int there = 0;
    MpiStatus status{};
    if (Mpi().Iprobe(kAnySource, kTag, control, &there, &status) != kSuccess || there == 0) return;
    int64_t content[2] = {0, 0};
    if (Mpi().Recv(content, 2, TypeInt64(), status.source, kTag, control, nullptr) != kSuccess)
      return;
    Peer& peer = peers_[static_cast<size_t>(status.source)];
    peer.n_started = content[1];
    peer.answered = true;
    peer.ended = peer.ended || content[0] == kGoodbye;
    if (content[0] == kAsk) Send(status.source, kAnswer);
  }
}

std::string Group::FindEnded() const {
  std::vector<int> ended;
  for (int i = 0; i < size; ++i) {
    const Peer& peer = peers_[static_cast<size_t>(i)];
    if (peer.ended && peer.n_started < n_started_) ended.push_back(i);
  }
  if (ended.empty()) return "";
  return RankList(ended) + (ended.size() == 1 ? " has" : " have") +
         " exited before this collective; all processes must run the same steps";
}

std::string Group::FindMissing(const Poll& poll) {
  for (Peer& peer : peers_) peer.answered = false;
  for (int i = 0; i < size; ++i) {
    if (i != rank) Send(i, kAsk);
  }
  const Clock::time_point end = Clock::now() + kAnswerTime;
  const auto waits_for_answers = [this] {
    for (int i = 0; i < size; ++i) {
      if (i != rank && !peers_[static_cast<size_t>(i)].answered) return true;
    }
    return false;
  };
  while (waits_for_answers() && Clock::now() < end && poll().ok()) {
    Receive();
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
  }
  std::vector<int> silent;
  std::vector<int> behind;
  for (int i = 0; i < size; ++i) {
    const Peer& peer = peers_[static_cast<size_t>(i)];
    if (i == rank) continue;
    if (!peer.answered) silent.push_back(i);
    if (peer.answered && peer.n_started < n_started_) behind.push_back(i);
  }
  std::ostringstream text;
  if (!silent.empty()) {
    text << RankList(silent) << " did not arrive within " << deadline_seconds.load() << " s";
  } else if (!behind.empty()) {
    text << RankList(behind) << (behind.size() == 1 ? " waits" : " wait")
         << " at an earlier collective, after " << deadline_seconds.load()
         << " s; all processes must run the same steps";
  } else {
    text << "all processes arrived, but no data within " << deadline_seconds.load()
         << " s; check the network";
  }
  text << ". Set a longer deadline with opwright_dist.set_deadline or OPWRIGHT_DIST_DEADLINE";
  return text.str();
}

void Group::SayGoodbye() {
  for (int i = 0; i < size; ++i) {
    if (i != rank) Send(i, kGoodbye);
  }
}

std::string Group::FindRemaining() {
  Receive();
  std::vector<int> remaining;
  for (int i = 0; i < size; ++i) {
    if (i != rank && !peers_[static_cast<size_t>(i)].ended) remaining.push_back(i);
  }
  return remaining.empty() ? "" : RankList(remaining);
}

Group* FindGroup(const std::string& name) {
  const std::lock_guard<std::mutex> lock(groups_mutex);
  const auto found = Groups().find(name);
  return found == Groups().end() ? nullptr : found->second.get();
}

std::string AddWorld() {
  const std::lock_guard<std::mutex> lock(groups_mutex);
  if (Groups().count("world") == 0) {
    auto world = std::make_unique<Group>("world", CommWorld());
    const Status status = world->ShareMemory();
    if (!status.ok()) return status.message();
    Groups()["world"] = std::move(world);
  }
  return "";
}

std::string AddGroup(const std::string& name, const std::vector<int>& ranks) {
  const std::lock_guard<std::mutex> lock(groups_mutex);
  const Library& mpi = Mpi();
  Group& world = *Groups().at("world");
  if (std::find(ranks.begin(), ranks.end(), world.rank) == ranks.end()) return "";
  CommGroup everyone = nullptr;
  CommGroup members = nullptr;
  Comm comm = CommNull();
  int code = mpi.Comm_group(world.control, &everyone);
  if (code == kSuccess) {
    code = mpi.Group_incl(everyone, static_cast<int>(ranks.size()), ranks.data(), &members);
  }
  if (code == kSuccess) code = mpi.Comm_create_group(world.control, members, kTag, &comm);
  if (code != kSuccess) return "group '" + name + "': MPI failed: " + ErrorText(code);
  mpi.Group_free(&everyone);
  mpi.Group_free(&members);
  auto group = std::make_unique<Group>(name, comm);
  const Status status = group->ShareMemory();
  if (!status.ok()) return status.message();
  Groups()[name] = std::move(group);
  return "";
}

}  // namespace opwright_mpi
