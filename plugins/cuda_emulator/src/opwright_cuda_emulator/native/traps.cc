#include "traps.h"

#include <signal.h>

#include <mutex>

#include "block.h"

namespace shim {

namespace {

// x86 processors raise the first one at a trap, ARM's the second one.
constexpr int kSignals[] = {SIGILL, SIGTRAP};

struct Handlers {
  std::mutex mutex;
  int n_users = 0;
  struct sigaction others[2] = {};  // what the process had
};

Handlers& The() {
  static auto* handlers = new Handlers;  // threads may come here while statics are destroyed
  return *handlers;
}

// On the stack of the fiber whose thread made the access, and it never returns there: the fiber is
// left for good. That is no different from a call, for the signal is the thread's own.
void Stop(int signal, siginfo_t*, void*) {
  if (Block::current_thread != nullptr) Block::current->StopMisaligned();
  // Not of a kernel: the instruction traps once more, for the handler that the process had.
  sigaction(signal, &The().others[signal == SIGILL ? 0 : 1], nullptr);
}

}  // namespace

Traps::Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (The().n_users++ != 0) return;
  struct sigaction stop = {};
  stop.sa_sigaction = Stop;
  stop.sa_flags = SA_SIGINFO | SA_NODEFER;  // the signal is not blocked after the fiber was left
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &stop, &The().others[i]);
}

Traps::~Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (--The().n_users != 0) return;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &The().others[i], nullptr);
}

}  // namespace shim
