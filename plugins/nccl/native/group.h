// Processes that meet in collectives: their communicator, its stream, and how far it is.
#ifndef OPWRIGHT_NCCL_GROUP_H_
#define OPWRIGHT_NCCL_GROUP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "cuda.h"
#include "nccl_api.h"
#include "opwright/sdk.hpp"
#include "progress.h"

namespace opwright_nccl {

// What a collective is called where it is reported; Progress::operation is one of them.
enum Operation : int32_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduceShard,
  kUnshard,
  kBarrier,
  kPart,
  kComparePlans,
};
const char* NameOf(int32_t operation);

// Two events of one kernel: where the group's stream may begin, and where it has ended.
class Fork {
 public:
  Fork() = default;
  ~Fork();
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  opwright::Status Make(void* device);
  Event ready = nullptr;
  Event done = nullptr;

 private:
  void* device_ = nullptr;
};

class Group {
 public:
  Group(std::string group_name, int own_rank, int n)
      : name(std::move(group_name)), rank(own_rank), size(n) {}

  const std::string name;
  const int rank;
  const int size;

  // One collective of a group at a time: held by each kernel while it puts work on streams.
  std::mutex mutex;

  // What each kernel asks first: usable, on one GPU, connected. The first one connects, which all
  // processes come to at the same place.
  opwright::Status Enter(const char* who, void* device);

  // Lets `enqueue` put NCCL's calls on a stream of the group, behind what is on the call's stream;
  // it returns NCCL's code.
  opwright::Status Begin(const opwright::RunContext& ctx, Operation operation, const Fork& fork,
                         const std::function<int(Comm, Stream)>& enqueue);
  // Lets the call's stream wait for that.
  static opwright::Status End(const opwright::RunContext& ctx, const Fork& fork);

  // Compares plans, before NCCL's calls of this run.
  opwright::Status Compare(const opwright::RunContext& ctx, const Fork& fork, int64_t digest,
                           Address numbers);

  // ---- What Python calls

  // Begins to connect, of this thread's call of Enter; then asks how far that is.
  int StartComm(const UniqueId& id);
  int FindCommState();
  // The error that NCCL has noticed by itself, 0 where there is none; what has been done so far.
  int Watch(Progress* progress);
  // Ends all that is under way, for a reason that the next wait for the GPU and the next collective
  // report. In any thread.
  void Fail(const std::string& reason);
  bool is_usable();

 private:
  opwright::Status Check(const char* who);
  opwright::Status Connect(const char* who, void* device);
  opwright::Status LoadKernels(void* device);
  opwright::Status FindBeside(const opwright::RunContext& ctx, Stream* beside);
  opwright::Status Settle(const char* who, const opwright::RunContext& ctx, int code);

  std::mutex state_mutex_;  // of what follows, up to the empty line
  std::string unusable_;
  Comm comm_ = nullptr;
  bool is_connected_ = false;

  void* device_ = nullptr;
  // For each stream that calls come on, one beside it: a graph is recorded on a stream of its own,
  // while another thread may be putting work on the usual one.
  std::map<Stream, Stream> beside_;
  Stream usual_ = nullptr;        // of the first call, which records nothing
  Stream spare_ = nullptr;        // made then, so that nothing is made while a graph is recorded
  Progress* progress_ = nullptr;  // in host memory
  Address progress_address_ = 0;
  KernelHandle begin_ = nullptr;
  KernelHandle end_ = nullptr;
  KernelHandle fingerprint_ = nullptr;
  KernelHandle compare_ = nullptr;
};

// Connects a group, from Python: 0, or 1 and a message.
using ConnectFn = int (*)(const char* group, int32_t gpu, char* message, int64_t message_bytes);

// Lets other processes look up what a digest of a plan stands for, in Python.
using PublishFn = void (*)(int64_t digest, const char* entries);

void SetConnect(ConnectFn connect);
void SetPublish(PublishFn publish);
void SetDeadline(double seconds);

// The group of a name; nullptr where there is none. They live until the process ends.
Group* FindGroup(const std::string& name);
// Makes a group that this process belongs to.
void AddGroup(const std::string& name, int rank, int size);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_GROUP_H_
