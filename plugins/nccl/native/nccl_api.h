// The part of NCCL that is used here: constants and functions of nccl.h 2.28, stable in NCCL 2.
// Functions are loaded by name.
#ifndef OPWRIGHT_NCCL_NCCL_API_H_
#define OPWRIGHT_NCCL_NCCL_API_H_

#include <climits>
#include <cstddef>
#include <cstdint>

namespace opwright_nccl {

using Comm = struct ncclComm*;
using Stream = struct CUstream_st*;

struct UniqueId {
  char bytes[128];
};

constexpr int kSuccess = 0;
constexpr int kInProgress = 7;

constexpr int kTypeInt8 = 0;
constexpr int kTypeInt32 = 2;
constexpr int kTypeInt64 = 4;
constexpr int kTypeFloat32 = 7;
constexpr int kTypeFloat64 = 8;

constexpr int kSum = 0;
constexpr int kMax = 2;
constexpr int kMin = 3;

// The first version with ncclAlltoAll.
constexpr int kLeastVersion = 22800;

// ncclConfig_t of 2.27. Newer libraries use `version` to detect which members exist.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22700;
  int blocking = 0;  // calls do not block, since waiting must have a deadline
  int cga_cluster_size = INT_MIN;
  int least_ctas = INT_MIN;
  int most_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
};

// The name and parameters of each function; all functions return int.
#define OPWRIGHT_NCCL_FUNCTIONS(F)                                       \
  F(GetVersion, (int*))                                                  \
  F(GetUniqueId, (UniqueId*))                                            \
  F(CommInitRankConfig, (Comm*, int, UniqueId, int, Config*))            \
  F(CommGetAsyncError, (Comm, int*))                                     \
  F(CommAbort, (Comm))                                                   \
  F(MemAlloc, (void**, size_t))                                          \
  F(MemFree, (void*))                                                    \
  F(AllReduce, (const void*, void*, size_t, int, int, Comm, Stream))     \
  F(AllGather, (const void*, void*, size_t, int, Comm, Stream))          \
  F(ReduceScatter, (const void*, void*, size_t, int, int, Comm, Stream)) \
  F(AlltoAll, (const void*, void*, size_t, int, Comm, Stream))           \
  F(Broadcast, (const void*, void*, size_t, int, int, Comm, Stream))

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_NCCL_API_H_
