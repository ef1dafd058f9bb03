// The interface between kernels compiled for the CPU and their scheduler.
#ifndef OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_
#define OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace shim {

struct Dim {
  unsigned x, y, z;
};

// The indices of one thread of a block.
struct Thread {
  Dim thread, block, block_dim, grid_dim;
  int index;  // index in the block
  int lane;   // index in the warp
};

// The functions that kernels call. The line identifies the barrier.
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
  void (*call)(void* const* params);  // runs one thread
  const size_t* sizes;                // sizes of the parameters in bytes
  size_t n_params;
};

struct LaunchShape {
  Dim grid, block;
  size_t shared_bytes;
};

// The error that a launch returns.
struct Fault {
  const char* text;  // empty on success
  bool is_misaligned;
};

Fault RunKernel(const KernelEntry& kernel, const LaunchShape& shape, void* const* params);
// Runs only the blocks [first, last) of a grid, in the order x, y, z, for grids that are too large
// to run completely.
Fault RunBlocks(const KernelEntry& kernel, const LaunchShape& shape, void* const* params,
                uint64_t first, uint64_t last);
const RuntimeTable& TheTable();

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_RUNTIME_H_
