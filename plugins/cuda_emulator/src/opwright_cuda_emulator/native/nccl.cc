// NCCL on the CPU, with the functions that opwright-nccl uses. Processes communicate through shared
// memory, and data moves when the emulated stream reaches the call. Arguments, shared GPUs and
// aborted communicators are checked as by NCCL with NCCL_CHECK_POINTERS. If processes call
// different collectives, which NCCL does not detect, the communicator reports an error.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <type_traits>

#include "driver.h"

using namespace emulator;

extern "C" int cuMemAlloc_v2(uint64_t* address, size_t bytes);
extern "C" int cuMemFree_v2(uint64_t address);
extern "C" int cuPointerGetAttribute(void* value, int attribute, uint64_t address);

namespace {

constexpr int kSuccess = 0;
constexpr int kUnhandledCudaError = 1;
constexpr int kSystemError = 2;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kInProgress = 7;

constexpr int kVersion = 23203;
constexpr unsigned kMagic = 0xcafebeef;
constexpr int kMostRanks = 64;
constexpr size_t kSlotBytes = size_t{1} << 16;
constexpr int kDeviceOrdinal = 9;
constexpr int kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};  // item sizes by ncclDataType_t

enum Kind : int64_t { kAllReduce, kAllGather, kReduceScatter, kAlltoAll, kBroadcast };

// The arguments that must be equal in all processes.
struct Call {
  int64_t kind;
  int64_t count;
  int64_t type;
  int64_t operation;
  int64_t root;
};

struct Member {
  std::atomic<int64_t> has_joined;
  std::atomic<uint64_t> n_barriers;
  char gpu[64];
  Call call;
  char data[kSlotBytes];
};

struct Id {
  char name[128];
};

struct Config {  // the first members of ncclConfig_t
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

std::mutex error_mutex;
std::string& LastError() {
  static auto* text = new std::string;
  return *text;
}

int Fail(int code, const std::string& text) {
  const std::lock_guard<std::mutex> lock(error_mutex);
  LastError() = text;
  return code;
}

std::string GpuName() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return (visible == nullptr ? "" : std::string(visible) + "/") + std::to_string(CurrentDevice());
}

// A communicator; it exists until the last graph that contains its work is destroyed.
struct Communicator {
  int rank = 0;
  int size = 0;
  std::string path;
  Member* members = nullptr;
  std::atomic<bool> is_aborted{false};
  std::atomic<int> error{kSuccess};
  uint64_t n_barriers = 0;

  ~Communicator() {
    if (members != nullptr) munmap(members, sizeof(Member) * static_cast<size_t>(size));
  }

  bool HasAll() const {
    for (int i = 0; i < size; ++i) {
      if (members[i].has_joined.load() == 0) return false;
    }
    return true;
  }

  // Waits for all processes; returns false if the communicator is aborted meanwhile.
  bool Meet() {
    members[rank].n_barriers.store(++n_barriers);
    for (int i = 0; i < size; ++i) {
      while (members[i].n_barriers.load() < n_barriers) {
        if (is_aborted.load()) return false;
        const timespec nap{0, 20'000};
        sched_yield();
        nanosleep(&nap, nullptr);
      }
    }
    return true;
  }
};

using Shared = std::shared_ptr<Communicator>;

Shared& Of(void* comm) { return *static_cast<Shared*>(comm); }

template <typename T>
T Join(int operation, T a, T b) {
  if (operation == 2)
    return std::is_floating_point_v<T> ? static_cast<T>(std::fmax(a, b)) : a > b ? a : b;
  if (operation == 3)
    return std::is_floating_point_v<T> ? static_cast<T>(std::fmin(a, b)) : a < b ? a : b;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void JoinSlots(const Communicator& comm, int operation, size_t bytes, char* to) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T total;
    std::memcpy(&total, comm.members[0].data + at, sizeof(T));
    for (int i = 1; i < comm.size; ++i) {
      T one;
      std::memcpy(&one, comm.members[i].data + at, sizeof(T));
      total = Join(operation, total, one);
    }
    std::memcpy(to + at, &total, sizeof(T));
  }
}

void Reduce(const Communicator& comm, const Call& call, size_t bytes, char* to) {
  const auto operation = static_cast<int>(call.operation);
  if (call.type == 2) JoinSlots<int32_t>(comm, operation, bytes, to);
  if (call.type == 4) JoinSlots<int64_t>(comm, operation, bytes, to);
  if (call.type == 7) JoinSlots<float>(comm, operation, bytes, to);
  if (call.type == 8) JoinSlots<double>(comm, operation, bytes, to);
}

// Exchanges the bytes of all processes in chunks; give(at, n) fills the slot of this process, and
// take(at, n) reads all slots.
template <typename Give, typename Take>
void InSlots(Communicator* comm, size_t bytes, const Give& give, const Take& take) {
  for (size_t at = 0; at < bytes; at += kSlotBytes) {
    const size_t n = std::min(kSlotBytes, bytes - at);
    give(at, n);
    if (!comm->Meet()) return;
    take(at, n);
    if (!comm->Meet()) return;
  }
}

void Move(Communicator* comm, const Call& call, const char* sent, char* received) {
  const size_t bytes = static_cast<size_t>(call.count * kSizes[call.type]);
  char* own = comm->members[comm->rank].data;
  const auto rank = static_cast<size_t>(comm->rank);
  const auto give = [&](size_t at, size_t n) { std::memcpy(own, sent + at, n); };
  const auto take_all = [&](size_t at, size_t n) {
    for (int i = 0; i < comm->size; ++i) {
      std::memcpy(received + static_cast<size_t>(i) * bytes + at, comm->members[i].data, n);
    }
  };
  switch (call.kind) {
    case kAllReduce:
      return InSlots(comm, bytes, give,
                     [&](size_t at, size_t n) { Reduce(*comm, call, n, received + at); });
    case kAllGather:
      return InSlots(comm, bytes, give, take_all);
    case kBroadcast:
      return InSlots(comm, bytes, give, [&](size_t at, size_t n) {
        std::memcpy(received + at, comm->members[call.root].data, n);
      });
    default:
      for (size_t part = 0; part < static_cast<size_t>(comm->size); ++part) {
        const auto give_part = [&](size_t at, size_t n) {
          std::memcpy(own, sent + part * bytes + at, n);
        };
        InSlots(comm, bytes, give_part, [&](size_t at, size_t n) {
          if (part != rank) return;
          if (call.kind == kAlltoAll) return take_all(at, n);
          Reduce(*comm, call, n, received + at);
        });
      }
  }
}

std::string Run(const Shared& comm, const Call& call, const char* sent, char* received) {
  if (comm->is_aborted.load()) return "";  // as NCCL kernels do
  comm->members[comm->rank].call = call;
  if (!comm->Meet()) return "";
  for (int i = 1; i < comm->size; ++i) {
    if (std::memcmp(&comm->members[i].call, &comm->members[0].call, sizeof(Call)) == 0) continue;
    comm->error.store(Fail(kInvalidUsage,
                           "rank 0 and rank " + std::to_string(i) + " call different collectives"));
    return "";
  }
  if (!comm->Meet()) return "";
  Count("collectives", 1);
  Move(comm.get(), call, sent, received);
  return "";
}

bool IsDeviceMemory(const void* pointer) {
  int ordinal = 0;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return cuPointerGetAttribute(&ordinal, kDeviceOrdinal, address) == 0 &&
         ordinal == CurrentDevice();
}

int CheckComm(void* comm) {
  if (comm == nullptr) return Fail(kInvalidArgument, "comm argument is NULL");
  if (Of(comm)->is_aborted.load()) return Fail(kInvalidArgument, "comm was aborted");
  if (!Of(comm)->HasAll()) return Fail(kInvalidUsage, "comm is still in progress");
  return Of(comm)->error.load();
}

int Start(void* comm, const Call& call, const void* sent, void* received, void* stream) {
  if (const int code = CheckComm(comm); code != kSuccess) return code;
  const bool reduces = call.kind == kAllReduce || call.kind == kReduceScatter;
  if (call.type < 0 || call.type > 9) return Fail(kInvalidArgument, "invalid type");
  if (call.operation < 0 || call.operation > 4) return Fail(kInvalidArgument, "invalid operation");
  if (reduces && call.type != 2 && call.type != 4 && call.type != 7 && call.type != 8) {
    return Fail(kInvalidArgument, "the emulated NCCL does not reduce numbers of this type");
  }
  if (reduces && call.operation != 0 && call.operation != 2 && call.operation != 3) {
    return Fail(kInvalidArgument, "the emulated NCCL has no such reduction");
  }
  if (call.root < 0 || call.root >= Of(comm)->size) return Fail(kInvalidArgument, "invalid root");
  if (call.count == 0) return kSuccess;
  if (!IsDeviceMemory(sent) || !IsDeviceMemory(received)) {
    return Fail(kInvalidArgument, "a buffer is not memory of this GPU");
  }
  const Shared kept = Of(comm);
  const int result = Enqueue(stream, [kept, call, sent, received] {
    return Run(kept, call, static_cast<const char*>(sent), static_cast<char*>(received));
  });
  return result == 0 ? kSuccess : Fail(kUnhandledCudaError, "the stream does not accept work");
}

int FindDuplicate(const Communicator& comm) {
  for (int i = 0; i < comm.size; ++i) {
    for (int j = 0; j < i; ++j) {
      if (std::strcmp(comm.members[i].gpu, comm.members[j].gpu) != 0) continue;
      return Fail(kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(j) +
                                     " and rank " + std::to_string(i) + " both on CUDA device " +
                                     comm.members[i].gpu);
    }
  }
  return kSuccess;
}

}  // namespace

EMULATED ncclGetVersion(int* version) {
  const char* text = std::getenv("OPWRIGHT_EMULATOR_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : kVersion;
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(int code) {
  static const char* const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return code >= 0 && code <= kInProgress ? texts[code] : "unknown result code";
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(void*) {
  static thread_local std::string kept;
  const std::lock_guard<std::mutex> lock(error_mutex);
  kept = LastError();
  return kept.c_str();
}
EMULATED ncclGetUniqueId(Id* id) {
  std::random_device source;
  std::snprintf(id->name, sizeof(id->name), "/dev/shm/opwright-nccl-%08x%08x", source(), source());
  return kSuccess;
}
EMULATED ncclCommInitRankConfig(void** comm, int size, Id id, int rank, const Config* config) {
  if (config->magic != kMagic) return Fail(kInvalidArgument, "the magic number is wrong");
  if (rank < 0 || rank >= size || size > kMostRanks) {
    return Fail(kInvalidArgument, "invalid rank requested : " + std::to_string(rank));
  }
  if (CurrentDevice() < 0) return Fail(kUnhandledCudaError, "Cuda failure 'invalid context'");
  auto made = std::make_shared<Communicator>();
  made->rank = rank;
  made->size = size;
  made->path = id.name;
  const size_t bytes = sizeof(Member) * static_cast<size_t>(size);
  const int file = open(id.name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return Fail(kSystemError, "no shared memory");
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return Fail(kSystemError, "no shared memory");
  made->members = static_cast<Member*>(memory);
  std::snprintf(made->members[rank].gpu, sizeof(Member::gpu), "%s", GpuName().c_str());
  made->members[rank].has_joined.store(1);
  *comm = new Shared(made);
  if (config->blocking == 0) return kInProgress;
  while (!made->HasAll()) sched_yield();
  return FindDuplicate(*made);
}
EMULATED ncclCommGetAsyncError(void* comm, int* error) {
  if (comm == nullptr) return Fail(kInvalidArgument, "comm argument is NULL");
  Communicator& asked = *Of(comm);
  *error = asked.error.load();
  if (*error != kSuccess) return kSuccess;
  if (!asked.HasAll()) {
    *error = kInProgress;
    return kSuccess;
  }
  unlink(asked.path.c_str());
  *error = FindDuplicate(asked);
  return kSuccess;
}
// Does not take the driver lock, since another thread can be waiting in a collective.
EMULATED ncclCommAbort(void* comm) {
  if (comm == nullptr) return Fail(kInvalidArgument, "comm argument is NULL");
  Of(comm)->is_aborted.store(true);
  unlink(Of(comm)->path.c_str());
  return kSuccess;
}
EMULATED ncclMemAlloc(void** pointer, size_t bytes) {
  uint64_t address = 0;
  const int result = cuMemAlloc_v2(&address, bytes);
  *pointer = reinterpret_cast<void*>(address);
  return result == 0 ? kSuccess : Fail(kUnhandledCudaError, "Cuda failure 'out of memory'");
}
EMULATED ncclMemFree(void* pointer) {
  return cuMemFree_v2(reinterpret_cast<uint64_t>(pointer)) == 0
             ? kSuccess
             : Fail(kInvalidArgument, "memory that ncclMemAlloc did not give");
}
EMULATED ncclAllReduce(const void* sent, void* received, size_t count, int type, int operation,
                       void* comm, void* stream) {
  const Call call{kAllReduce, static_cast<int64_t>(count), type, operation, 0};
  return Start(comm, call, sent, received, stream);
}
EMULATED ncclAllGather(const void* sent, void* received, size_t count, int type, void* comm,
                       void* stream) {
  const Call call{kAllGather, static_cast<int64_t>(count), type, 0, 0};
  return Start(comm, call, sent, received, stream);
}
EMULATED ncclReduceScatter(const void* sent, void* received, size_t count, int type, int operation,
                           void* comm, void* stream) {
  const Call call{kReduceScatter, static_cast<int64_t>(count), type, operation, 0};
  return Start(comm, call, sent, received, stream);
}
EMULATED ncclAlltoAll(const void* sent, void* received, size_t count, int type, void* comm,
                      void* stream) {
  const Call call{kAlltoAll, static_cast<int64_t>(count), type, 0, 0};
  return Start(comm, call, sent, received, stream);
}
EMULATED ncclBroadcast(const void* sent, void* received, size_t count, int type, int root,
                       void* comm, void* stream) {
  const Call call{kBroadcast, static_cast<int64_t>(count), type, 0, root};
  return Start(comm, call, sent, received, stream);
}
