// The kernels of the emulated driver, which are entries of libraries built by the host compiler.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

using emulator::Count;
using emulator::Enqueue;
using emulator::kLaunchFailed;
using emulator::kMisalignedAddress;

namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidImage = 200;
constexpr int kNotFound = 500;

}  // namespace

// The image is the path of a library; kernels are found by the names of its entries.
EMULATED cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*, void**,
                           unsigned) {
  *library = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  if (*library == nullptr) {
    std::fprintf(stderr, "emulator: %s\n", dlerror());
    return kInvalidImage;
  }
  const auto attach =
      reinterpret_cast<void (*)(const shim::RuntimeTable*)>(dlsym(*library, "ow_attach"));
  if (attach == nullptr) return kInvalidImage;
  attach(&shim::TheTable());
  return 0;
}
EMULATED cuLibraryUnload(void* library) {
  dlclose(library);
  return 0;
}
EMULATED cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  *kernel = dlsym(library, name);
  return *kernel == nullptr ? kNotFound : 0;
}
EMULATED cuKernelSetAttribute(int, int, void*, int) { return 0; }

EMULATED cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        void* stream, void** params, void**) {
  const auto* kernel = static_cast<const shim::KernelEntry*>(function);
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x * block_y * block_z == 0 ||
      block_x * block_y * block_z > 1024 || grid_y > 65535 || grid_z > 65535) {
    return kInvalidValue;
  }
  // The parameters are copied at launch, as in the real driver.
  std::vector<std::vector<uint64_t>> kept;
  for (size_t i = 0; i < kernel->n_params; ++i) {
    kept.emplace_back((kernel->sizes[i] + 7) / 8);
    std::memcpy(kept.back().data(), params[i], kernel->sizes[i]);
  }
  const shim::LaunchShape shape{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  Count("launches", 1);
  return Enqueue(stream, [kernel, shape, kept = std::move(kept)] {
    std::vector<void*> pointers;
    for (const auto& param : kept) {
      pointers.push_back(const_cast<void*>(static_cast<const void*>(param.data())));
    }
    const shim::Fault fault = shim::RunKernel(*kernel, shape, pointers.data());
    const int result = fault.is_misaligned ? kMisalignedAddress : kLaunchFailed;
    return emulator::Outcome(fault.text, result);
  });
}

EMULATED cuKernelGetParamInfo(void* function, size_t index, size_t* offset, size_t* size) {
  const auto* kernel = static_cast<const shim::KernelEntry*>(function);
  if (index >= kernel->n_params) return kInvalidValue;
  *offset = 0;  // its location on a GPU is meaningless here
  *size = kernel->sizes[index];
  return 0;
}

// Runs the blocks [first, last) of a launch immediately and returns its error, for tests of
// launches that are too large to run completely.
extern "C" __attribute__((visibility("default"))) const char* emulator_run(
    const shim::KernelEntry* kernel, const shim::LaunchShape* shape, void* const* params,
    uint64_t first, uint64_t last) {
  return shim::RunBlocks(*kernel, *shape, params, first, last).text;
}

extern "C" __attribute__((visibility("default"))) const shim::RuntimeTable* emulator_runtime() {
  return &shim::TheTable();
}
