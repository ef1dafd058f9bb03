#include "traps.h"

#include <signal.h>

#include <mutex>

#include "block.h"

namespace shim {

namespace {

// A trap raises the first signal on x86 processors, and the second on ARM processors.
constexpr int kSignals[] = {SIGILL, SIGTRAP};

struct Handlers {
  std::mutex mutex;
  int n_users = 0;
  struct sigaction others[2] = {};  // the previous handlers
};

Handlers& The() {
  static auto* handlers = new Handlers;  // never freed, since destructors of statics can use it
  return *handlers;
}

// Runs on the stack of the fiber that made the access. The handler does not return, and the fiber
// is abandoned, which is as safe as in a function call, since the signal is synchronous.
void Stop(int signal, siginfo_t*, void*) {
  if (Block::current_thread != nullptr) Block::current->StopMisaligned();
  // A kernel did not raise this trap, so the instruction is retried with the previous handler.
  sigaction(signal, &The().others[signal == SIGILL ? 0 : 1], nullptr);
}

}  // namespace

Traps::Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (The().n_users++ != 0) return;
  struct sigaction stop = {};
  stop.sa_sigaction = Stop;
  stop.sa_flags = SA_SIGINFO | SA_NODEFER;  // not blocked, since Stop does not return
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &stop, &The().others[i]);
}

Traps::~Traps() {
  const std::lock_guard<std::mutex> guard(The().mutex);
  if (--The().n_users != 0) return;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &The().others[i], nullptr);
}

}  // namespace shim
