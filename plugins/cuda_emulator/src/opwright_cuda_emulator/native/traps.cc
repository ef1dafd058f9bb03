#include "traps.h"

#include <signal.h>

#include <mutex>

#include "block.h"

namespace shim {

namespace {

// x86 processors raise the first signal for a trap, ARM processors the second.
constexpr int kSignals[] = {SIGILL, SIGTRAP};

struct Handlers {
  std::mutex mutex;
  int n_users = 0;
  struct sigaction others[2] = {};  // the previous handlers
};

Handlers& The() {
  static auto* handlers = new Handlers;  // never freed: may be used while statics are destroyed
  return *handlers;
}

// Runs on the stack of the fiber that made the access and does not return; the fiber is abandoned.
// This is as safe as a call, since the signal is synchronous.
void Stop(int signal, siginfo_t*, void*) {
  if (Block::current_thread != nullptr) Block::current->StopMisaligned();
  // The trap is not from a kernel, so the instruction traps again with the previous handler.
  sigaction(signal, &The().others[signal == SIGILL ? 0 : 1], nullptr);
}

}  // namespace

Traps::Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (The().n_users++ != 0) return;
  struct sigaction stop = {};
  stop.sa_sigaction = Stop;
  stop.sa_flags = SA_SIGINFO | SA_NODEFER;  // the signal stays unblocked after leaving the fiber
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &stop, &The().others[i]);
}

Traps::~Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (--The().n_users != 0) return;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &The().others[i], nullptr);
}

}  // namespace shim
