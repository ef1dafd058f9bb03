#include "cuda.h"

#include <map>
#include <mutex>
#include <utility>

namespace opwright_nccl {

using opwright::Status;

namespace {

const opwright_cuda_services* the_services = nullptr;
LoadKernelFn load_kernel = nullptr;
Driver functions;
std::mutex mutex;
std::map<std::pair<int32_t, std::string>, KernelHandle> kernels;

template <typename Function>
Status Find(const char* symbol, Function* function) {
  *reinterpret_cast<void**>(function) = the_services->find(symbol);
  OPWRIGHT_ENFORCE(*function != nullptr, "CUDA: the driver must have ", symbol,
                   ", got none; install NVIDIA driver 580 or newer");
  return Status::Ok();
}

}  // namespace

void SetServices(const opwright_cuda_services* services, LoadKernelFn load) {
  the_services = services;
  load_kernel = load;
}

const opwright_cuda_services& Services() { return *the_services; }

const Driver& Cuda() { return functions; }

Status OpenDriver() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (functions.LaunchKernel != nullptr) return Status::Ok();
#define OPWRIGHT_NCCL_LOAD(name, symbol, parameters) \
  OPWRIGHT_RETURN_IF_ERROR(Find(symbol, &functions.name));
  OPWRIGHT_NCCL_DRIVER_FUNCTIONS(OPWRIGHT_NCCL_LOAD)
#undef OPWRIGHT_NCCL_LOAD
  return Status::Ok();
}

Status CheckCuda(int result, const char* what) {
  if (result == 0) return Status::Ok();
  const char* name = nullptr;
  functions.GetErrorName(result, &name);
  return Status::Error("CUDA: ", what, " failed with ", name != nullptr ? name : "error ",
                       name != nullptr ? "" : std::to_string(result));
}

Status FindKernel(void* device, const std::string& expression, KernelHandle* kernel) {
  OPWRIGHT_RETURN_IF_ERROR(OpenDriver());
  const int32_t gpu = the_services->ordinal(device);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    *kernel = kernels[{gpu, expression}];
    if (*kernel != nullptr) return Status::Ok();
  }
  // The lock is not held here, since Python may run other threads while it compiles.
  char message[4096] = {0};
  const uint64_t handle = load_kernel(expression.c_str(), gpu, message, sizeof(message));
  if (handle == 0) return Status::Error(message);
  *kernel = reinterpret_cast<KernelHandle>(handle);  // NOLINT(performance-no-int-to-ptr)
  const std::lock_guard<std::mutex> lock(mutex);
  kernels[{gpu, expression}] = *kernel;
  return Status::Ok();
}

}  // namespace opwright_nccl
