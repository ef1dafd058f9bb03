// The entry point of the library, and functions that Python calls through ctypes.
#include <opwright/abi.h>

#include <utility>
#include <vector>

#include "blas/blas.h"
#include "cudnn/cudnn.h"
#include "device/device.h"
#include "driver/driver.h"
#include "launch/launch.h"
#include "numbers.h"

#ifndef OPWRIGHT_PLUGIN_VERSION
#define OPWRIGHT_PLUGIN_VERSION "0"
#endif

#define OPWRIGHT_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace opwright_cuda {
namespace {

const ow_plugin& TheTable() {
  static const ow_kernel kernel = LaunchKernelTable();
  static const ow_plugin plugin = [] {
    ow_plugin table{};
    table.size = sizeof(table);
    table.abi_major = OW_ABI_MAJOR;
    table.abi_minor = OW_ABI_MINOR;
    table.name = "cuda";
    table.version = OPWRIGHT_PLUGIN_VERSION;
    table.kernels = &kernel;
    table.n_kernels = 1;
    table.kernel_stride = sizeof(ow_kernel);
    table.devices = &DeviceTable();
    table.n_devices = 1;
    table.device_stride = sizeof(ow_device);
    return table;
  }();
  return plugin;
}

}  // namespace
}  // namespace opwright_cuda

OPWRIGHT_CUDA_EXPORT int32_t opwright_plugin_v1(const ow_host*, const ow_plugin** plugin) {
  *plugin = &opwright_cuda::TheTable();
  return OW_OK;
}

// Properties of a GPU, available before a context is created.
struct opwright_cuda_info {
  int32_t major;
  int32_t minor;
  int32_t multiprocessors;
  int32_t shared_bytes;  // the maximum per block
  char name[256];
};

OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_describe(int32_t ordinal, opwright_cuda_info* info,
                                                    char* message, uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const Driver* driver = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
    int n = 0;
    OPWRIGHT_RETURN_IF_ERROR(CountDevices(&n));
    OPWRIGHT_ENFORCE(ordinal >= 0 && ordinal < n, "CUDA: the index of a GPU must be in [0, ", n,
                     "), got ", ordinal, "; see nvidia-smi");
    CUdevice device = 0;
    OPWRIGHT_RETURN_IF_ERROR(
        Check(*driver, driver->DeviceGet(&device, ordinal), "finding the GPU"));
    const std::pair<int, int32_t*> attributes[] = {{kComputeCapabilityMajor, &info->major},
                                                   {kComputeCapabilityMinor, &info->minor},
                                                   {kMultiprocessorCount, &info->multiprocessors},
                                                   {kMaxSharedBytes, &info->shared_bytes}};
    for (const auto& [attribute, value] : attributes) {
      OPWRIGHT_RETURN_IF_ERROR(Check(*driver, driver->DeviceGetAttribute(value, attribute, device),
                                     "describing the GPU"));
    }
    return Check(*driver, driver->DeviceGetName(info->name, sizeof(info->name), device),
                 "the name of the GPU");
  });
}

// Counts the visible GPUs.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_count(int32_t* n, char* message,
                                                 uint64_t message_bytes) {
  return opwright::detail::AtBorder(message, message_bytes,
                                    [&] { return opwright_cuda::CountDevices(n); });
}

// Loads a cubin for the lifetime of the process and finds its kernels.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_load(const void* image, const char* const* names,
                                                uint64_t n_names, uint64_t* kernels, char* message,
                                                uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const Driver* driver = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
    CUlibrary library = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(Check(
        *driver, driver->LibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a cubin"));
    for (uint64_t i = 0; i < n_names; ++i) {
      CUkernel kernel = nullptr;
      const CUresult result = driver->LibraryGetKernel(&kernel, library, names[i]);
      if (result != kSuccess) driver->LibraryUnload(library);
      OPWRIGHT_RETURN_IF_ERROR(Check(*driver, result, names[i]));
      kernels[i] = reinterpret_cast<uint64_t>(kernel);
    }
    return Status::Ok();
  });
}

// Returns the sizes of a kernel's parameters in bytes. On entry, `n` is the capacity; on return, it
// is the number of parameters.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_parameter_sizes(uint64_t kernel, uint64_t* sizes,
                                                           uint64_t* n, char* message,
                                                           uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const Driver* driver = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
    const uint64_t room = *n;
    for (*n = 0; *n < room; ++*n) {
      size_t offset = 0;
      size_t size = 0;
      const CUresult result =
          driver->KernelGetParamInfo(reinterpret_cast<CUkernel>(kernel), *n, &offset, &size);
      if (result == kInvalidValue) break;  // there are no more parameters
      OPWRIGHT_RETURN_IF_ERROR(Check(*driver, result, "asking for a kernel's parameters"));
      sizes[*n] = size;
    }
    return Status::Ok();
  });
}

// Allows the blocks of a kernel to use more than 48 kB of shared memory.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_allow_shared(uint64_t kernel, int32_t ordinal,
                                                        int32_t bytes, char* message,
                                                        uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const Driver* driver = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(OpenDriver(&driver));
    CUdevice device = 0;
    OPWRIGHT_RETURN_IF_ERROR(
        Check(*driver, driver->DeviceGet(&device, ordinal), "finding the GPU"));
    return Check(*driver,
                 driver->KernelSetAttribute(kMaxDynamicSharedBytes, bytes,
                                            reinterpret_cast<CUkernel>(kernel), device),
                 "asking for shared memory");
  });
}

// Finds the index of the GPU that owns an address, or -1 if no GPU does.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_find_gpu(uint64_t pointer, int32_t* ordinal,
                                                    char* message, uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes,
                                    [&] { return FindDevice(pointer, ordinal); });
}

OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_register_fault(const char* text) {
  return opwright_cuda::RegisterFault(text);
}

OPWRIGHT_CUDA_EXPORT void opwright_cuda_set_blas_path(const char* path) {
  opwright_cuda::SetBlasPath(path);
}

OPWRIGHT_CUDA_EXPORT void opwright_cuda_set_cudnn_path(const char* path) {
  opwright_cuda::SetCudnnPath(path);
}

// Loads cuDNN and returns its version, such as 91200.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_cudnn_version(uint64_t* version, char* message,
                                                         uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const CudnnApi* api = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(OpenCudnn(&api));
    *version = api->Version();
    return Status::Ok();
  });
}

// Finds the engine that cuDNN would choose for a GPU, which need not be present. `record` describes
// an operation graph (see cudnn.h), and `properties` is the JSON description of the GPU for cuDNN.
// `engine` receives the index, the workspace size in bytes and the note bits of the engine.
OPWRIGHT_CUDA_EXPORT int32_t opwright_cuda_choose_engine(const int64_t* record, uint64_t n,
                                                         const char* properties, int64_t engine[3],
                                                         char* message, uint64_t message_bytes) {
  using namespace opwright_cuda;
  return opwright::detail::AtBorder(message, message_bytes, [&]() -> Status {
    const std::vector<int64_t> numbers(record, record + n);
    Numbers reader(numbers);
    CudnnEngine chosen;
    OPWRIGHT_RETURN_IF_ERROR(
        ChooseFor(properties, ReadOperationGraph(&reader, UINT64_MAX), &chosen));
    engine[0] = chosen.number;
    engine[1] = chosen.workspace;
    engine[2] = static_cast<int64_t>(chosen.notes);
    return Status::Ok();
  });
}
