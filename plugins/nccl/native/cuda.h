// Access to the NVIDIA driver that opwright-cuda opened, and to kernels that it compiles.
#ifndef OPWRIGHT_NCCL_CUDA_H_
#define OPWRIGHT_NCCL_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "nccl_api.h"
#include "opwright/sdk.hpp"
#include "services.h"

namespace opwright_nccl {

using Address = unsigned long long;
using Event = struct CUevent_st*;
using KernelHandle = struct CUkern_st*;

#define OPWRIGHT_NCCL_DRIVER_FUNCTIONS(F)                                                        \
  F(GetErrorName, "cuGetErrorName", (int, const char**))                                         \
  F(MemAlloc, "cuMemAlloc_v2", (Address*, size_t))                                               \
  F(MemFree, "cuMemFree_v2", (Address))                                                          \
  F(MemHostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                  \
  F(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (Address*, void*, unsigned))        \
  F(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (Address, Address, size_t, Stream))                 \
  F(CtxSynchronize, "cuCtxSynchronize", ())                                                      \
  F(StreamCreate, "cuStreamCreate", (Stream*, unsigned))                                         \
  F(StreamWaitEvent, "cuStreamWaitEvent", (Stream, Event, unsigned))                             \
  F(EventCreate, "cuEventCreate", (Event*, unsigned))                                            \
  F(EventDestroy, "cuEventDestroy_v2", (Event))                                                  \
  F(EventRecord, "cuEventRecord", (Event, Stream))                                               \
  F(LaunchKernel, "cuLaunchKernel",                                                              \
    (KernelHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
     void**, void**))

struct Driver {
#define OPWRIGHT_NCCL_DECLARE(name, symbol, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_NCCL_DRIVER_FUNCTIONS(OPWRIGHT_NCCL_DECLARE)
#undef OPWRIGHT_NCCL_DECLARE
};

// Returns the handle of a kernel instance such as "put<int64_t>", or 0 and a message.
using LoadKernelFn = uint64_t (*)(const char* expression, int32_t gpu, char* message,
                                  int64_t message_bytes);

// Sets the services of opwright-cuda; must be called before any other function in this file.
void SetServices(const opwright_cuda_services* services, LoadKernelFn load);
const opwright_cuda_services& Services();

// Loads the driver functions at the first call; fails if a function is missing.
opwright::Status OpenDriver();
const Driver& Cuda();

// Returns OK for 0, otherwise an error with `what` and the name that the driver gives the code.
opwright::Status CheckCuda(int result, const char* what);

// Finds the kernel of a template expression on a device's GPU; each kernel is loaded once.
opwright::Status FindKernel(void* device, const std::string& expression, KernelHandle* kernel);

// Makes the context of a device current in this thread.
class Within {
 public:
  explicit Within(void* device) : device_(device), before_(Services().enter(device)) {}
  ~Within() { Services().leave(device_, before_); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  void* device_;
  void* before_;
};

constexpr unsigned kThreads = 256;

// Returns the number of blocks of kThreads threads for n elements, up to a limit that fills any
// GPU.
inline unsigned BlocksFor(int64_t n) {
  constexpr int64_t kMost = 2048;
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

// Launches a kernel; the argument types must match its parameter types exactly.
template <typename... Parameters>
opwright::Status Launch(KernelHandle kernel, unsigned blocks, unsigned threads, Stream stream,
                        Parameters... parameters) {
  if (blocks == 0) return opwright::Status::Ok();
  void* pointers[] = {static_cast<void*>(&parameters)...};
  return CheckCuda(
      Cuda().LaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr),
      "the launch of a kernel");
}

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_CUDA_H_
