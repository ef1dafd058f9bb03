// Stacks to switch between: what a fiber is.
#ifndef OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
#define OPWRIGHT_CUDA_EMULATOR_FIBERS_H_

#include <sys/mman.h>

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace shim {

constexpr size_t kStackBytes = 128 * 1024;

#if defined(__x86_64__)

// Saves what a call keeps, changes the stack, takes back what was saved there.
extern "C" void shim_switch(void** from, void* to);
asm(R"(
.text
.type shim_switch, @function
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size shim_switch, .-shim_switch
)");

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

inline char* NewStack() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_FIBERS_H_
