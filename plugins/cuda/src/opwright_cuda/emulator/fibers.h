// Fibers: stacks that give the processor to each other by name.
#ifndef OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
#define OPWRIGHT_CUDA_EMULATOR_FIBERS_H_

#include <sys/mman.h>

#include <cstddef>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "sanitizers.h"

namespace shim {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;  // below a stack: who runs over its end is stopped

#if defined(__x86_64__)

extern "C" void shim_switch(void** from, void* to);  // fibers.cc

struct Context {
  void* stack_pointer = nullptr;
};

inline void SwitchContext(Context* from, Context* to) {
  shim_switch(&from->stack_pointer, to->stack_pointer);
}

inline void MakeContext(Context* context, char* stack, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(stack + kStackBytes - 64);
  *--top = nullptr;  // where `entry` would return to; it never does
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context->stack_pointer = top;
}

#else

struct Context {
  ucontext_t context;
};

inline void SwitchContext(Context* from, Context* to) { swapcontext(&from->context, &to->context); }

inline void MakeContext(Context* context, char* stack, void (*entry)()) {
  getcontext(&context->context);
  context->context.uc_stack.ss_sp = stack;
  context->context.uc_stack.ss_size = kStackBytes;
  context->context.uc_link = nullptr;
  makecontext(&context->context, entry, 0);
}

#endif

// The stacks of one thread's fibers, kept from block to block as long as the thread lives.
class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  // Lets the first `n` fibers begin anew with `entry`; false where there is no memory for stacks.
  bool Begin(size_t n, void (*entry)());
  // Runs fiber `i` until it leaves.
  void Resume(size_t i);
  // Called by fiber `i`: as its first deed, to wait, and as its last deed.
  void Arrived() { EndSwitch(nullptr, &main_stack_); }
  void Leave(size_t i, bool for_good);

 private:
  std::vector<Context> contexts_;
  std::vector<char*> stacks_;
  Context main_;
  Stack main_stack_;
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
