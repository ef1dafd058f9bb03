#include "group.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "library.h"

namespace opwright_nccl {

using opwright::Status;

namespace {

constexpr unsigned kNonBlocking = 1;     // a stream that is independent of the default stream
constexpr unsigned kDisableTiming = 2;   // an event without timing
constexpr unsigned kPortableMapped = 3;  // host memory with an address on the GPU
constexpr long kNapNs = 50'000;
constexpr timespec kAbortTime{0, 50'000'000};
constexpr const char* kNames[] = {"dist.all_reduce",   "dist.all_gather", "dist.reduce_scatter",
                                  "dist.all_to_all",   "dist.broadcast",  "dist.reduce_shard",
                                  "dist.unshard",      "dist.barrier",    "dist.part",
                                  "dist.compare_plans"};

std::atomic<double> deadline_seconds{60.0};
ConnectFn connect = nullptr;
std::mutex groups_mutex;
pid_t connected_pid = 0;

std::map<std::string, std::unique_ptr<Group>>& Groups() {
  // Never freed, since work can be active while the process exits.
  static auto* groups = new std::map<std::string, std::unique_ptr<Group>>;
  return *groups;
}

void Abort(void* device, Comm comm) {
  const Within within(device);
  Nccl().CommAbort(comm);
}

}  // namespace

const char* NameOf(int32_t operation) { return kNames[operation]; }

void SetConnect(ConnectFn function) { connect = function; }

void SetDeadline(double seconds) { deadline_seconds.store(seconds); }

Fork::~Fork() {
  if (device_ == nullptr) return;
  const Within within(device_);
  if (ready != nullptr) Cuda().EventDestroy(ready);
  if (done != nullptr) Cuda().EventDestroy(done);
}

Status Fork::Make(void* device) {
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver());
  device_ = device;
  const Within within(device);
  OPWRIGHT_RETURN_IF_ERROR(CheckCuda(Cuda().EventCreate(&ready, kDisableTiming), "an event"));
  return CheckCuda(Cuda().EventCreate(&done, kDisableTiming), "an event");
}

bool Group::is_usable() {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  return unusable_.empty() && connected_pid == getpid();
}

Status Group::Check(const char* who) {
  if (connected_pid != getpid()) {
    return Status::Error(
        who,
        ": a forked child is not connected to the other processes; start worker processes "
        "with the method 'spawn', and run collectives only in the parent");
  }
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (unusable_.empty()) return Status::Ok();
  return Status::Error(who, ": group '", name,
                       "' is unusable since a collective failed; restart all processes from the "
                       "last checkpoint. The failure was: ",
                       unusable_);
}

Status Group::Enter(const char* who, void* device) {
  OPWRIGHT_RETURN_IF_ERROR(Check(who));
  if (device_ == nullptr) return Connect(who, device);
  OPWRIGHT_ENFORCE(device == device_, who, ": group '", name,
                   "' must use one GPU per process, got GPU ", Services().ordinal(device),
                   " after GPU ", Services().ordinal(device_));
  return Status::Ok();
}

Status Group::LoadKernels(void* device) {
  OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, "begin", &begin_));
  OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, "end", &end_));
  OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, "fingerprint", &fingerprint_));
  return FindKernel(device, "compare", &compare_);
}

Status Group::Connect(const char* who, void* device) {
  OPWRIGHT_RETURN_IF_ERROR(LoadKernels(device));
  const Within within(device);
  const Driver& cuda = Cuda();
  void* memory = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(CheckCuda(cuda.MemHostAlloc(&memory, sizeof(Progress), kPortableMapped),
                                     "pinned host memory"));
  OPWRIGHT_RETURN_IF_ERROR(
      CheckCuda(cuda.MemHostGetDevicePointer(&progress_address_, memory, 0), "mapped host memory"));
  progress_ = static_cast<Progress*>(memory);
  *progress_ = Progress{};
  device_ = device;
  char message[4096] = {0};
  if (connect(name.c_str(), Services().ordinal(device), message, sizeof(message)) != 0) {
    Fail(message);
    return Status::Error(who, ": ", message);
  }
  const std::lock_guard<std::mutex> lock(state_mutex_);
  is_connected_ = true;
  return Status::Ok();
}

// NCCL can continue to enqueue work after a call returns; other work must not be enqueued until
// then.
Status Group::Settle(const char* who, const opwright::RunContext& ctx, int code) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_seconds.load());
  while (code == kInProgress) {
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
    OPWRIGHT_RETURN_IF_ERROR(ctx.Poll());
    OPWRIGHT_RETURN_IF_ERROR(Check(who));
    const int asked = Nccl().CommGetAsyncError(comm_, &code);
    if (asked != kSuccess) code = asked;
    if (std::chrono::steady_clock::now() > end) {
      Fail(opwright::detail::Concat(who, ": group '", name, "': NCCL did not start within ",
                                    deadline_seconds.load(), " s"));
      return Check(who);
    }
  }
  if (code == kSuccess) return Status::Ok();
  OPWRIGHT_RETURN_IF_ERROR(Check(who));  // returns the reason if the group was aborted
  Fail(opwright::detail::Concat(who, ": group '", name, "': NCCL failed: ", ErrorText(code)));
  return Check(who);
}

Status Group::FindBeside(const opwright::RunContext& ctx, Stream* beside) {
  auto* of_call = ctx.stream<CUstream_st>();
  const auto make = [](Stream* stream) {
    if (*stream != nullptr) return Status::Ok();
    return CheckCuda(Cuda().StreamCreate(stream, kNonBlocking), "making a stream");
  };
  Stream& found = beside_[of_call];
  if (found == nullptr) std::swap(found, spare_);
  OPWRIGHT_RETURN_IF_ERROR(make(&found));
  if (beside_.size() == 1) usual_ = of_call;
  if (of_call == usual_) OPWRIGHT_RETURN_IF_ERROR(make(&spare_));
  *beside = found;
  return Status::Ok();
}

Status Group::Begin(const opwright::RunContext& ctx, Operation operation, const Fork& fork,
                    const std::function<int(Comm, Stream)>& enqueue) {
  const Driver& cuda = Cuda();
  Stream beside = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(FindBeside(ctx, &beside));
  OPWRIGHT_RETURN_IF_ERROR(
      CheckCuda(cuda.EventRecord(fork.ready, ctx.stream<CUstream_st>()), "an event"));
  OPWRIGHT_RETURN_IF_ERROR(CheckCuda(cuda.StreamWaitEvent(beside, fork.ready, 0), "an event"));
  OPWRIGHT_RETURN_IF_ERROR(
      Launch(begin_, 1, 1, beside, progress_address_, static_cast<int32_t>(operation)));
  OPWRIGHT_RETURN_IF_ERROR(Settle(NameOf(operation), ctx, enqueue(comm_, beside)));
  OPWRIGHT_RETURN_IF_ERROR(Launch(end_, 1, 1, beside, progress_address_));
  return CheckCuda(cuda.EventRecord(fork.done, beside), "an event");
}

Status Group::End(const opwright::RunContext& ctx, const Fork& fork) {
  return CheckCuda(Cuda().StreamWaitEvent(ctx.stream<CUstream_st>(), fork.done, 0), "an event");
}

Status Group::Compare(const opwright::RunContext& ctx, const Fork& fork, int64_t digest,
                      Address numbers) {
  const Address all = numbers + 2 * sizeof(int64_t);
  Status status;
  Stream beside = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(FindBeside(ctx, &beside));
  OPWRIGHT_RETURN_IF_ERROR(Begin(ctx, kComparePlans, fork, [&](Comm comm, Stream stream) {
    status = Launch(fingerprint_, 1, 1, stream, progress_address_, digest, numbers);
    if (!status.ok()) return kSuccess;
    const int code = Nccl().AllGather(reinterpret_cast<void*>(numbers),
                                      reinterpret_cast<void*>(all), 2, kTypeInt64, comm, stream);
    return code;
  }));
  OPWRIGHT_RETURN_IF_ERROR(std::move(status));
  OPWRIGHT_RETURN_IF_ERROR(
      Launch(compare_, 1, 1, beside, progress_address_, all, static_cast<int32_t>(size)));
  OPWRIGHT_RETURN_IF_ERROR(CheckCuda(Cuda().EventRecord(fork.done, beside), "an event"));
  return End(ctx, fork);
}

int Group::StartComm(const UniqueId& id) {
  const Within within(device_);
  Config config;
  Comm made = nullptr;
  const int code = Nccl().CommInitRankConfig(&made, size, id, rank, &config);
  const std::lock_guard<std::mutex> lock(state_mutex_);
  comm_ = made;
  return code;
}

int Group::FindCommState() {
  int code = kSuccess;
  const int asked = Nccl().CommGetAsyncError(comm_, &code);
  return asked != kSuccess ? asked : code;
}

int Group::Watch(Progress* progress) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (!is_connected_ || !unusable_.empty()) return -1;
  const volatile Progress& now = *progress_;
  progress->begun = now.begun;
  progress->ended = now.ended;
  progress->operation = now.operation;
  progress->differs = now.differs;
  for (int i = 0; i < 2; ++i) {
    progress->first[i] = now.first[i];
    progress->other[i] = now.other[i];
  }
  int code = kSuccess;
  const int asked = Nccl().CommGetAsyncError(comm_, &code);
  if (asked != kSuccess) return asked;
  return code == kInProgress ? kSuccess : code;
}

void Group::Fail(const std::string& reason) {
  Comm comm = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (!unusable_.empty()) return;
    unusable_ = reason;
    comm = comm_;
  }
  if (device_ == nullptr) return;
  // The reason is set first, so a waiting thread can read it when its wait ends.
  Services().lose(device_, reason.c_str());
  // Abort runs in a separate thread, since Abort can wait for the GPU while the GPU waits to be
  // released. NCCL calls made after the abort end immediately.
  if (comm != nullptr) std::thread(Abort, device_, comm).detach();
  nanosleep(&kAbortTime, nullptr);
  static_cast<volatile Progress*>(progress_)->released = 1;
}

Group* FindGroup(const std::string& name) {
  const std::lock_guard<std::mutex> lock(groups_mutex);
  const auto found = Groups().find(name);
  return found == Groups().end() ? nullptr : found->second.get();
}

void AddGroup(const std::string& name, int rank, int size) {
  const std::lock_guard<std::mutex> lock(groups_mutex);
  connected_pid = getpid();
  Groups()[name] = std::make_unique<Group>(name, rank, size);
}

}  // namespace opwright_nccl
