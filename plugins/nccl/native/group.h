// Groups of processes, each with a communicator, streams and progress.
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

// The collectives, as stored in Progress::operation.
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

// Two events that mark the beginning and the end of a kernel's work on the group stream.
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

  // Serializes the group's collectives; a kernel holds this lock while it enqueues work.
  std::mutex mutex;

  // Checks that the group is usable, uses one GPU, and is connected; each kernel calls this first.
  // The first kernel connects the group, at the same point in all processes.
  opwright::Status Enter(const char* who, void* device);

  // Runs `enqueue`, which enqueues NCCL calls on a group stream and returns the NCCL result code.
  // The NCCL calls run after the work on the call stream.
  opwright::Status Begin(const opwright::RunContext& ctx, Operation operation, const Fork& fork,
                         const std::function<int(Comm, Stream)>& enqueue);
  // Makes the call stream wait for the enqueued work.
  static opwright::Status End(const opwright::RunContext& ctx, const Fork& fork);

  // Compares plans before this run calls NCCL.
  opwright::Status Compare(const opwright::RunContext& ctx, const Fork& fork, int64_t digest,
                           Address numbers);

  // ---- Called from Python

  // Starts to connect, while this thread is in a call of Enter; FindCommState then polls the state.
  int StartComm(const UniqueId& id);
  int FindCommState();
  // Returns the asynchronous NCCL error or 0, and the progress so far.
  int Watch(Progress* progress);
  // Aborts all active work; the next wait for the GPU and the next collective report the reason.
  // Can be called from any thread.
  void Fail(const std::string& reason);
  bool is_usable();

 private:
  opwright::Status Check(const char* who);
  opwright::Status Connect(const char* who, void* device);
  opwright::Status LoadKernels(void* device);
  opwright::Status FindBeside(const opwright::RunContext& ctx, Stream* beside);
  opwright::Status Settle(const char* who, const opwright::RunContext& ctx, int code);

  std::mutex state_mutex_;  // guards the following members, up to the empty line
  std::string unusable_;
  Comm comm_ = nullptr;
  bool is_connected_ = false;

  void* device_ = nullptr;
  // Maps call streams to group streams. A graph is recorded on a separate stream, while another
  // thread can enqueue work on the usual stream.
  std::map<Stream, Stream> beside_;
  Stream usual_ = nullptr;        // stream of the first call, which does not record a graph
  Stream spare_ = nullptr;        // created at the first call, since capture must not create events
  Progress* progress_ = nullptr;  // in host memory
  Address progress_address_ = 0;
  KernelHandle begin_ = nullptr;
  KernelHandle end_ = nullptr;
  KernelHandle fingerprint_ = nullptr;
  KernelHandle compare_ = nullptr;
};

// A Python function that connects a group; returns 0, or 1 and a message.
using ConnectFn = int (*)(const char* group, int32_t gpu, char* message, int64_t message_bytes);

// A Python function that publishes the entries behind a plan digest to other processes.
using PublishFn = void (*)(int64_t digest, const char* entries);

void SetConnect(ConnectFn connect);
void SetPublish(PublishFn publish);
void SetDeadline(double seconds);

// Returns the group with a name, or nullptr. Groups exist until the process exits.
Group* FindGroup(const std::string& name);
// Creates a group that includes this process.
void AddGroup(const std::string& name, int rank, int size);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_GROUP_H_
