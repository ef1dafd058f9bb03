// Fibers, which are cooperatively scheduled stacks.
#ifndef OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
#define OPWRIGHT_CUDA_EMULATOR_FIBERS_H_

#include <sys/mman.h>

#include <cstddef>
#include <deque>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "sanitizers.h"

namespace shim {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;  // guard page below a stack, to detect overflow

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
  *--top = nullptr;  // the return address of `entry`, which never returns
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

// The fibers of one thread of the process, which are reused between blocks. Idle fibers wait for
// more work, so starting a thread costs nothing. Under ThreadSanitizer, which treats fibers as
// threads, each fiber runs only one thread per block.
class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  // Returns an idle fiber, or a new fiber that starts with `entry`; -1 if its stack cannot be
  // allocated.
  int Take(void (*entry)());
  // Runs a fiber until it calls Leave.
  void Resume(int fiber);
  // A new fiber must call this first.
  void Arrived() { EndSwitch(nullptr, &main_stack_); }
  // Called by a fiber that waits or is idle.
  void Leave(int fiber);
  void LeaveIdle(int fiber);
  // Called when a block begins; makes the fibers that were idle at the end of the last block
  // reusable.
  void BeginBlock();
  // Discards the work of busy fibers, which are restarted.
  void GiveUp();

 private:
  std::deque<Context> contexts_;  // must not move, since contexts can point into themselves
  std::vector<char*> stacks_;
  std::vector<Strand> strands_;
  std::vector<int> idle_;
  std::vector<int> finished_;  // fibers that are idle once the block has ended
  std::vector<int> unused_;    // fibers with an empty stack
  Context main_;
  Stack main_stack_;
  Strand main_strand_ = {};
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
