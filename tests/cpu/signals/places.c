// Repeatedly sends a signal to every thread of the process, and counts the handlers that ran
// outside their thread's stack.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static const uintptr_t kStackBytes = 8 << 20;

static atomic_long handled, elsewhere;

// The C library stores a thread's own data at the top of its stack; the system stores such data at
// the top of the first thread's stack.
static void Count(int number) {
  (void)number;
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  const int is_first = gettid() == getpid();
  const uintptr_t top = is_first ? (uintptr_t)getauxval(AT_RANDOM) : (uintptr_t)pthread_self();
  if (here > top || top - here > kStackBytes) atomic_fetch_add(&elsewhere, 1);
  atomic_fetch_add(&handled, 1);
}

static void* Send(void* unused) {
  for (;;) {
    DIR* folder = opendir("/proc/self/task");
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
      const pid_t thread = atoi(entry->d_name);
      if (thread > 0 && thread != gettid()) tgkill(getpid(), thread, SIGUSR1);
    }
    closedir(folder);
    usleep(20);
  }
  return unused;
}

void start(void) {
  struct sigaction action = {.sa_handler = Count, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t sender;
  pthread_create(&sender, NULL, Send, NULL);
}

long n_handled(void) { return handled; }
long n_elsewhere(void) { return elsewhere; }
