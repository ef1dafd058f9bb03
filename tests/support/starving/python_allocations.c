// Makes the allocation with one number fail, among Python's allocations for objects and buffers: a
// library that is opened while Python runs. Writes the stack of a crash to stderr.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

enum { kDomains = 3, kMostFrames = 64 };

static PyMemAllocatorEx kept[kDomains];
static long left = 0;  // allocations until the failure; 0: nothing is counted
static long count = 0;

static int Fails(void) {
  if (left == 0) return 0;
  ++count;
  if (left < 0 || --left > 0) return 0;
  left = -1;  // it continues to count, and never reaches 1
  return 1;
}

static void* Malloc(void* context, size_t size) {
  PyMemAllocatorEx* allocator = context;
  return Fails() ? NULL : allocator->malloc(allocator->ctx, size);
}

static void* Calloc(void* context, size_t n, size_t size) {
  PyMemAllocatorEx* allocator = context;
  return Fails() ? NULL : allocator->calloc(allocator->ctx, n, size);
}

static void* Realloc(void* context, void* memory, size_t size) {
  PyMemAllocatorEx* allocator = context;
  return Fails() ? NULL : allocator->realloc(allocator->ctx, memory, size);
}

static void Free(void* context, void* memory) {
  PyMemAllocatorEx* allocator = context;
  allocator->free(allocator->ctx, memory);
}

static void WriteStack(int number) {
  void* frames[kMostFrames];
  backtrace_symbols_fd(frames, backtrace(frames, kMostFrames), STDERR_FILENO);
  signal(number, SIG_DFL);
  raise(number);
}

// Counts the allocations of this process from now on; only one thread may make them.
void starve_count(void) {
  for (int domain = 0; domain < kDomains; ++domain) {
    PyMem_GetAllocator((PyMemAllocatorDomain)domain, &kept[domain]);
    PyMemAllocatorEx ours = {&kept[domain], Malloc, Calloc, Realloc, Free};
    PyMem_SetAllocator((PyMemAllocatorDomain)domain, &ours);
  }
}

void starve_write_stacks(void) {
  void* frame;
  backtrace(&frame, 1);  // opens its files now, since a signal handler could not
  signal(SIGSEGV, WriteStack);
  signal(SIGBUS, WriteStack);
  signal(SIGABRT, WriteStack);
}

// Makes the k-th allocation from now on fail.
void starve_arm(long k) {
  count = 0;
  left = k;
}

// Ends that; returns the number of allocations.
long starve_disarm(void) {
  left = 0;
  return count;
}
