#include "runtime/threads/fork.h"

#include <pthread.h>

#include <atomic>

namespace opwright {

namespace {

std::atomic<uint32_t> fork_count{0};

void CountFork() { fork_count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t ForkCount() {
  static const int registered = pthread_atfork(nullptr, nullptr, CountFork);
  static_cast<void>(registered);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace opwright
