#include "fibers.h"

namespace shim {

#if defined(__x86_64__)

// Saves the callee-saved registers, switches the stack, and restores the registers saved there.
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
  for (const Strand strand : strands_) EndStrand(strand);
  for (char* stack : stacks_) munmap(stack - kGuardBytes, kGuardBytes + kStackBytes);
}

int Fibers::Take(void (*entry)()) {
  if (!idle_.empty()) {
    const int fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }
  if (unused_.empty()) {
    char* stack = NewStack();
    if (stack == nullptr) return -1;
    unused_.push_back(static_cast<int>(stacks_.size()));
    stacks_.push_back(stack);
    contexts_.emplace_back();
    strands_.push_back(NewStrand());
  }
  const int fiber = unused_.back();
  unused_.pop_back();
  const auto i = static_cast<size_t>(fiber);
  MakeContext(&contexts_[i], stacks_[i], entry);
  return fiber;
}

void Fibers::Resume(int fiber) {
  const auto i = static_cast<size_t>(fiber);
  void* kept = nullptr;
  BeginSwitch(&kept, {stacks_[i], kStackBytes});
  ContinueStrand(strands_[i]);
  SwitchContext(&main_, &contexts_[i]);
  EndSwitch(kept, nullptr);
}

void Fibers::Leave(int fiber) {
  void* kept = nullptr;
  BeginSwitch(&kept, main_stack_);
  ContinueStrand(main_strand_);
  SwitchContext(&contexts_[static_cast<size_t>(fiber)], &main_);
  EndSwitch(kept, &main_stack_);
}

void Fibers::LeaveIdle(int fiber) {
  {
    const Unseen unseen;
    (kWatchesThreads ? finished_ : idle_).push_back(fiber);
  }
  Leave(fiber);
}

void Fibers::BeginBlock() {
  main_strand_ = ThisStrand();
  idle_.insert(idle_.end(), finished_.begin(), finished_.end());
  finished_.clear();
}

void Fibers::GiveUp() {
  idle_.clear();
  finished_.clear();
  unused_.clear();
  for (size_t i = 0; i < stacks_.size(); ++i) {
    Clean(stacks_[i], kStackBytes);
    EndStrand(strands_[i]);
    strands_[i] = NewStrand();
    unused_.push_back(static_cast<int>(i));
  }
}

}  // namespace shim
