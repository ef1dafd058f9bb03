// Between kernels compiled for the CPU and what runs their threads.
#ifndef OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_
#define OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace shim {

struct Dim {
  unsigned x, y, z;
};

// What one thread of a block knows of itself.
struct Thread {
  Dim thread, block, block_dim, grid_dim;
  int index;  // in the block
  int lane;   // in the warp
};

// What kernels call. The line identifies the barrier.
struct RuntimeTable {
  const Thread* (*thread)();
  void (*barrier)(int line);
  void (*warp_barrier)(unsigned mask, int line);
  uint64_t (*exchange)(unsigned mask, uint64_t value, int from, int line);
  uint64_t (*ballot)(unsigned mask, bool vote, int line);
  void* (*shared)(const void* key, size_t bytes, size_t alignment);
  void* (*dynamic)();
};

struct KernelEntry {
  const char* name;
  void (*call)(void* const* params);  // as one thread
  const size_t* sizes;                // of the parameters, in bytes
  size_t n_params;
};

struct LaunchShape {
  Dim grid, block;
  size_t shared_bytes;
};

// What was wrong with a launch.
struct Fault {
  const char* text;  // empty where all went well
  bool is_misaligned;
};

Fault RunKernel(const KernelEntry& kernel, const LaunchShape& shape, void* const* params);
// The same for some blocks of a grid: [first, last) in the order of x, y, z. For sizes at which
// running all of them takes too long.
Fault RunBlocks(const KernelEntry& kernel, const LaunchShape& shape, void* const* params,
                uint64_t first, uint64_t last);
const RuntimeTable& TheTable();

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_
