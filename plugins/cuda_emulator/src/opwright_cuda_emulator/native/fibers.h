// Fibers: stacks that give the processor to each other by name.
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

// The fibers of one thread of the process, kept from block to block as long as it lives. What is
// idle waits to be given more work, so that it costs nothing to begin with it. ThreadSanitizer sees
// threads in them: then none of them does two things in one block.
class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  // Returns an idle fiber, a new one of which begins with `entry`; -1 where there is no memory for
  // its stack.
  int Take(void (*entry)());
  // Runs a fiber until it leaves.
  void Resume(int fiber);
  // Called by a new fiber as its first deed.
  void Arrived() { EndSwitch(nullptr, &main_stack_); }
  // Called by a fiber: to wait, or because it is idle.
  void Leave(int fiber);
  void LeaveIdle(int fiber);
  // A block begins: what was idle at the end of the last one may be taken.
  void BeginBlock();
  // Forgets what fibers were doing that are not idle: they begin anew.
  void GiveUp();

 private:
  std::deque<Context> contexts_;  // they may point into themselves
  std::vector<char*> stacks_;
  std::vector<Strand> strands_;
  std::vector<int> idle_;
  std::vector<int> finished_;  // idle once the block has ended
  std::vector<int> unused_;    // with a stack, and nothing on it
  Context main_;
  Stack main_stack_;
  Strand main_strand_ = {};
};

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
