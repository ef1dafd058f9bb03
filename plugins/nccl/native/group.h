// Groups of processes: their communicator, stream and progress.
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

// Names of collectives in reports, indexed by Progress::operation.
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

// Two events of one kernel: the begin and the end of work on the group's stream.
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

  // Serializes the collectives of a group: held by each kernel while it enqueues work.
  std::mutex mutex;

  // Checked first by each kernel: usable, on one GPU, connected. The first kernel connects, at the
  // same point in all processes.
  opwright::Status Enter(const char* who, void* device);

  // Runs `enqueue`, which enqueues NCCL's calls on a stream of the group, after the work on the
  // call's stream; it returns NCCL's code.
  opwright::Status Begin(const opwright::RunContext& ctx, Operation operation, const Fork& fork,
                         const std::function<int(Comm, Stream)>& enqueue);
  // Makes the call's stream wait for that.
  static opwright::Status End(const opwright::RunContext& ctx, const Fork& fork);

  // Compares plans, before NCCL's calls of this run.
  opwright::Status Compare(const opwright::RunContext& ctx, const Fork& fork, int64_t digest,
                           Address numbers);

  // ---- Called from Python

  // Starts to connect for this thread's call of Enter; then polls the state.
  int StartComm(const UniqueId& id);
  int FindCommState();
  // NCCL's asynchronous error, 0 if none, and the progress so far.
  int Watch(Progress* progress);
  // Aborts all active work, with a reason reported by the next wait for the GPU and the next
  // collective. In any thread.
  void Fail(const std::string& reason);
  bool is_usable();

 private:
  opwright::Status Check(const char* who);
  opwright::Status Connect(const char* who, void* device);
  opwright::Status LoadKernels(void* device);
  opwright::Status FindBeside(const opwright::RunContext& ctx, Stream* beside);
  opwright::Status Settle(const char* who, const opwright::RunContext& ctx, int code);

  std::mutex state_mutex_;  // guards what follows, up to the empty line
  std::string unusable_;
  Comm comm_ = nullptr;
  bool is_connected_ = false;

  void* device_ = nullptr;
  // One group stream per call stream: a graph is recorded on a separate stream, while another
  // thread may enqueue work on the usual one.
  std::map<Stream, Stream> beside_;
  Stream usual_ = nullptr;        // of the first call, which records nothing
  Stream spare_ = nullptr;        // created then, so that nothing is created during graph capture
  Progress* progress_ = nullptr;  // in host memory
  Address progress_address_ = 0;
  KernelHandle begin_ = nullptr;
  KernelHandle end_ = nullptr;
  KernelHandle fingerprint_ = nullptr;
  KernelHandle compare_ = nullptr;
};

// Connects a group, from Python: 0, or 1 and a message.
using ConnectFn = int (*)(const char* group, int32_t gpu, char* message, int64_t message_bytes);

// Publishes the entries of a plan's digest to other processes, in Python.
using PublishFn = void (*)(int64_t digest, const char* entries);

void SetConnect(ConnectFn connect);
void SetPublish(PublishFn publish);
void SetDeadline(double seconds);

// The group of a name, or nullptr. Groups live until the process ends.
Group* FindGroup(const std::string& name);
// Creates a group that includes this process.
void AddGroup(const std::string& name, int rank, int size);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_GROUP_H_
