// Groups of processes, and waiting for their collectives.
#ifndef OPWRIGHT_MPI_GROUP_H_
#define OPWRIGHT_MPI_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mpi_abi.h"
#include "opwright/sdk.hpp"
#include "shared_exchange.h"

namespace opwright_mpi {

class MpiReduction;

// Called about once per millisecond while a run waits; if it fails, the run gives up.
using Poll = std::function<opwright::Status()>;

// Three communicators of the same processes. On each of them collectives start in the order of the
// program, independent of the other two. The second part of a reduction uses the second one.
class Group {
 public:
  Group(std::string group_name, Comm base);

  const std::string name;
  int rank = 0;
  int size = 1;
  Comm first = CommNull();
  Comm second = CommNull();
  Comm control = CommNull();

  // Serializes the collectives of a group: held by each kernel while it starts or waits.
  std::mutex mutex;

  // Enables shared memory for reductions, if all processes can map it. Called by all of them.
  opwright::Status ShareMemory();
  // nullptr without shared memory.
  SharedExchange* exchange() const { return exchange_.get(); }

  // Whether a collective may start; each calls this first. `who` is the operator.
  opwright::Status Check(const char* who) const;
  // Counts a started collective; `code` is MPI's result.
  opwright::Status Started(const char* who, int code);

  // Waits until `done` returns 1. It returns 0 for not yet, 2 for progress, or a negated error code
  // of MPI. Without progress until the deadline, the error names the missing processes.
  opwright::Status Wait(const char* who, const Poll& poll, const std::function<int()>& done);
  // Waits for one request.
  opwright::Status Wait(const char* who, const Poll& poll, Request* request);

  // Starts to compare this process's plan with the others': `digest` represents `entries`, which
  // live as long as the plan.
  opwright::Status BeginComparison(const Poll& poll, int64_t digest,
                                   const std::vector<std::string>* entries);
  // Waits for the comparison, if one was started.
  opwright::Status EndComparison(const char* who, const Poll& poll);

  // Makes progress on started MPI reductions, in start order.
  int Progress();
  void Add(MpiReduction* reduction) { active_.push_back(reduction); }
  void Remove(const MpiReduction* reduction);

  // Notifies the others that this process starts no further collective.
  void SayGoodbye();
  // Names the others that have not done so yet, for messages; empty if there are none.
  std::string FindRemaining();

 private:
  enum Message : int64_t { kAsk, kAnswer, kGoodbye };
  struct Peer {
    int64_t n_started = -1;  // collectives that it has reported
    bool answered = false;
    bool ended = false;
  };

  opwright::Status Break(const std::string& reason);
  opwright::Status FailMpi(const char* who, int code);
  void Send(int to, Message message);
  void Receive();
  // Describes the state of the others after the deadline.
  std::string FindMissing(const Poll& poll);
  std::string FindEnded() const;
  opwright::Status WaitForComparison(const char* who, const Poll& poll);
  opwright::Status DescribeDifference(const char* who, const Poll& poll);
  opwright::Status Gather(const char* who, const Poll& poll, const void* own, int64_t bytes,
                          void* all);

  std::string unusable_;  // why no collective may start any more
  int64_t n_started_ = 0;
  std::vector<Peer> peers_;
  std::vector<MpiReduction*> active_;
  std::unique_ptr<SharedExchange> exchange_;
  int n_spins_;
  // The comparison under way: digest and n_started of this process, and of all.
  bool is_comparing_ = false;
  int64_t own_[2] = {0, 0};
  std::vector<int64_t> all_;
  Request comparison_ = RequestNull();
  const std::vector<std::string>* entries_ = nullptr;
};

// The group of a name, or nullptr. Groups live until the process ends.
Group* FindGroup(const std::string& name);
// Creates a group of processes of the world; this one need not be a member. Returns an error text.
std::string AddGroup(const std::string& name, const std::vector<int>& ranks);
// Creates the group of all processes, after Connect.
std::string AddWorld();

void SetDeadline(double seconds);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_GROUP_H_
