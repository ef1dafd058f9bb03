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

// A function that is called about once per millisecond while a run waits. If the function fails,
// the run stops waiting.
using Poll = std::function<opwright::Status()>;

// A group has three communicators with the same processes. On each of them, collectives start in
// program order, independently of the other communicators. The second phase of a reduction uses the
// second communicator.
class Group {
 public:
  Group(std::string group_name, Comm base);

  const std::string name;
  int rank = 0;
  int size = 1;
  Comm first = CommNull();
  Comm second = CommNull();
  Comm control = CommNull();

  // Serializes the group's collectives; a kernel holds this lock while it starts or waits.
  std::mutex mutex;

  // Enables shared memory if all processes can map it. All processes must call this.
  opwright::Status ShareMemory();
  // Returns nullptr if shared memory is not enabled.
  SharedExchange* exchange() const { return exchange_.get(); }

  // Returns an error if collectives must not start; each collective calls this first. `who` is the
  // operator.
  opwright::Status Check(const char* who) const;
  // Counts a started collective; `code` is the MPI return code.
  opwright::Status Started(const char* who, int code);

  // Waits until `done` returns 1; it returns 0 if unfinished, 2 after progress, or a negated MPI
  // error code. If there is no progress until the deadline, the error names the missing processes.
  opwright::Status Wait(const char* who, const Poll& poll, const std::function<int()>& done);
  // Waits for one request.
  opwright::Status Wait(const char* who, const Poll& poll, Request* request);

  // Starts to compare the plan of this process with the plans of the other processes. `digest` is
  // the digest of `entries`, which exist as long as the plan.
  opwright::Status BeginComparison(const Poll& poll, int64_t digest,
                                   const std::vector<std::string>* entries);
  // Waits for the comparison, if one was started.
  opwright::Status EndComparison(const char* who, const Poll& poll);

  // Makes progress on started MPI reductions, in start order.
  int Progress();
  void Add(MpiReduction* reduction) { active_.push_back(reduction); }
  void Remove(const MpiReduction* reduction);

  // Tells the other processes that this process will not start further collectives.
  void SayGoodbye();
  // Lists, for error messages, the other processes that have not called SayGoodbye, if any.
  std::string FindRemaining();

 private:
  enum Message : int64_t { kAsk, kAnswer, kGoodbye };
  struct Peer {
    int64_t n_started = -1;  // number of collectives that the process reported
    bool answered = false;
    bool ended = false;
  };

  opwright::Status Break(const std::string& reason);
  opwright::Status FailMpi(const char* who, int code);
  void Send(int to, Message message);
  void Receive();
  // Describes the state of the other processes after the deadline.
  std::string FindMissing(const Poll& poll);
  std::string FindEnded() const;
  opwright::Status WaitForComparison(const char* who, const Poll& poll);
  opwright::Status DescribeDifference(const char* who, const Poll& poll);
  opwright::Status Gather(const char* who, const Poll& poll, const void* own, int64_t bytes,
                          void* all);

  std::string unusable_;  // the reason why collectives must not start, or empty
  int64_t n_started_ = 0;
  std::vector<Peer> peers_;
  std::vector<MpiReduction*> active_;
  std::unique_ptr<SharedExchange> exchange_;
  int n_spins_;
  // The current comparison: digest and n_started of this process and of all processes.
  bool is_comparing_ = false;
  int64_t own_[2] = {0, 0};
  std::vector<int64_t> all_;
  Request comparison_ = RequestNull();
  const std::vector<std::string>* entries_ = nullptr;
};

// Returns the group with a name, or nullptr. Groups exist until the process exits.
Group* FindGroup(const std::string& name);
// Creates a group of processes, which need not include this process. Returns an error message, or
// an empty string.
std::string AddGroup(const std::string& name, const std::vector<int>& ranks);
// Creates the group of all processes, after Connect.
std::string AddWorld();

void SetDeadline(double seconds);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_GROUP_H_
