// Accesses that are misaligned for their type. A GPU refuses them and an x86 processor does not,
// so the compiler puts a trap before each (host_compiler.py). The signal of a trap is turned into
// an error of the block that runs.
#ifndef OPWRIGHT_CUDA_EMULATOR_TRAPS_H_
#define OPWRIGHT_CUDA_EMULATOR_TRAPS_H_

namespace shim {

// While one lives, in any thread, traps of kernels are errors. Traps of others keep the handlers
// that the process had.
class Traps {
 public:
  Traps();
  ~Traps();
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_TRAPS_H_
