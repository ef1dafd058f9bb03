#include "fibers.h"

namespace shim {

#if defined(__x86_64__)

// Saves what a call keeps, changes the stack, takes back what was saved there.
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

#endif

namespace {

char* NewStack() {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  mprotect(memory, kGuardBytes, PROT_NONE);
  return static_cast<char*>(memory) + kGuardBytes;
}

}  // namespace

Fibers::~Fibers() {
  for (char* stack : stacks_) munmap(stack - kGuardBytes, kGuardBytes + kStackBytes);
}

bool Fibers::Begin(size_t n, void (*entry)()) {
  while (stacks_.size() < n) {
    char* stack = NewStack();
    if (stack == nullptr) return false;
    stacks_.push_back(stack);
  }
  if (contexts_.size() < n) contexts_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    Clean(stacks_[i], kStackBytes);
    MakeContext(&contexts_[i], stacks_[i], entry);
  }
  return true;
}

void Fibers::Resume(size_t i) {
  void* kept = nullptr;
  BeginSwitch(&kept, {stacks_[i], kStackBytes});
  SwitchContext(&main_, &contexts_[i]);
  EndSwitch(kept, nullptr);
}

void Fibers::Leave(size_t i, bool for_good) {
  void* kept = nullptr;
  BeginSwitch(for_good ? nullptr : &kept, main_stack_);
  SwitchContext(&contexts_[i], &main_);
  EndSwitch(kept, &main_stack_);
}

}  // namespace shim
