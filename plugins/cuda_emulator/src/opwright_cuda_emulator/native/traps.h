// Detects misaligned accesses. A GPU rejects them, but an x86 processor does not, so the compiler
// inserts a trap before each of them (host_compiler.py). The signal of the trap becomes an error of
// the running block.
#ifndef OPWRIGHT_CUDA_EMULATOR_TRAPS_H_
#define OPWRIGHT_CUDA_EMULATOR_TRAPS_H_

namespace shim {

// While an object exists in any thread, traps of kernels become errors. Other traps use the
// previous handlers.
class Traps {
 public:
  Traps();
  ~Traps();
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_TRAPS_H_
