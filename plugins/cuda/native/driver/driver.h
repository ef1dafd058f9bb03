// Functions of the NVIDIA driver, which are loaded at first use instead of being linked.
#ifndef OPWRIGHT_CUDA_DRIVER_DRIVER_H_
#define OPWRIGHT_CUDA_DRIVER_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include <opwright/sdk/status.hpp>

namespace opwright_cuda {

using opwright::Status;

// Types of the driver, named as in cuda.h.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

constexpr CUresult kSuccess = 0;
constexpr CUresult kInvalidValue = 1;
constexpr CUresult kOutOfMemory = 2;
constexpr CUresult kNoDevice = 100;

constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kMultiprocessorCount = 16;
constexpr int kMemoryPoolsSupported = 115;
constexpr int kMaxSharedBytes = 97;
constexpr int kDeviceOrdinal = 9;          // an attribute of pointers
constexpr int kMaxDynamicSharedBytes = 8;  // an attribute of kernels

// Each entry is a name in Driver, a symbol of the library and its parameters. Drivers for CUDA 12.4
// have all of these symbols.
#define OPWRIGHT_CUDA_DRIVER_FUNCTIONS(X)                                                         \
  X(Init, "cuInit", (unsigned))                                                                   \
  X(DriverGetVersion, "cuDriverGetVersion", (int*))                                               \
  X(GetErrorName, "cuGetErrorName", (CUresult, const char**))                                     \
  X(GetErrorString, "cuGetErrorString", (CUresult, const char**))                                 \
  X(DeviceGetCount, "cuDeviceGetCount", (int*))                                                   \
  X(DeviceGet, "cuDeviceGet", (CUdevice*, int))                                                   \
  X(DeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                     \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                            \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                   \
  X(DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (CUdevice, unsigned*, int*))          \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                          \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext*))                                               \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                \
  X(CtxSynchronize, "cuCtxSynchronize", ())                                                       \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                                            \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                            \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr))                                                       \
  X(MemAllocAsync, "cuMemAllocAsync", (CUdeviceptr*, size_t, CUstream))                           \
  X(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                      \
  X(DeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (CUmemoryPool*, CUdevice))              \
  X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool, int, void*))                     \
  X(MemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool, size_t))                                     \
  X(MemHostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                   \
  X(MemFreeHost, "cuMemFreeHost", (void*))                                                        \
  X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr*, void*, unsigned))     \
  X(PointerGetAttribute, "cuPointerGetAttribute", (void*, int, CUdeviceptr))                      \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))        \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))              \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))        \
  X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))             \
  X(StreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                        \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream))                                              \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream))                                         \
  X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                          \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                               \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                                 \
  X(EventCreate, "cuEventCreate", (CUevent*, unsigned))                                           \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent))                                                 \
  X(EventRecord, "cuEventRecord", (CUevent, CUstream))                                            \
  X(EventSynchronize, "cuEventSynchronize", (CUevent))                                            \
  X(EventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                           \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long)) \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                        \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph))                                                    \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                        \
  X(LibraryLoadData, "cuLibraryLoadData",                                                         \
    (CUlibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned))                    \
  X(LibraryUnload, "cuLibraryUnload", (CUlibrary))                                                \
  X(LibraryGetKernel, "cuLibraryGetKernel", (CUkernel*, CUlibrary, const char*))                  \
  X(KernelSetAttribute, "cuKernelSetAttribute", (int, int, CUkernel, CUdevice))                   \
  X(KernelGetParamInfo, "cuKernelGetParamInfo", (CUkernel, size_t, size_t*, size_t*))             \
  X(LaunchKernel, "cuLaunchKernel",                                                               \
    (CUkernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,    \
     void**, void**))

struct Driver {
#define OPWRIGHT_CUDA_DECLARE(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  OPWRIGHT_CUDA_DRIVER_FUNCTIONS(OPWRIGHT_CUDA_DECLARE)
#undef OPWRIGHT_CUDA_DECLARE
};

// Opens and initializes the driver at the first call; later calls return the same result. Errors
// name the missing library, function, version or device, and a solution.
//
// The variable OPWRIGHT_CUDA_DRIVER names a library to use instead of libcuda.so.1.
Status OpenDriver(const Driver** driver);

// Looks up a driver function that is not in the table; returns NULL if the driver lacks it.
void* FindInDriver(const char* symbol);

// Counts the visible devices; a count of 0 is not an error here.
Status CountDevices(int* n);

// Finds the index of the GPU that owns an address, or -1 if no GPU does. May be called in any
// thread.
Status FindDevice(CUdeviceptr pointer, int* ordinal);

// Returns an error if no device is visible; the message says whether devices are hidden.
Status CheckAnyDevice(int n);

// Returns the name and the message of a result, as in "CUDA_ERROR_OUT_OF_MEMORY (out of memory)",
// with a solution if one is known.
std::string ErrorText(const Driver& driver, CUresult result);

// Returns OK for kSuccess, otherwise an error with the action and the message of the driver.
Status Check(const Driver& driver, CUresult result, const char* what);

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_DRIVER_DRIVER_H_
