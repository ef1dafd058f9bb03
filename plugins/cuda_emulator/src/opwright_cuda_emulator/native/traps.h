// Detects misaligned accesses. A GPU rejects misaligned accesses, but an x86 processor does not, so
// the compiler inserts a check that traps before each access (host_compiler.py). The trap signal
// becomes an error of the running block.
#ifndef OPWRIGHT_CUDA_EMULATOR_TRAPS_H_
#define OPWRIGHT_CUDA_EMULATOR_TRAPS_H_

namespace shim {

// While an object exists in any thread, traps in kernels become errors. Other traps go to the
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
