// A library for LD_PRELOAD that makes the allocation with a given number fail. It numbers the
// allocations of a minimum size that code in selected libraries requests. Mapped memory counts too,
// because it contains the code that oneDNN compiles.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

constexpr int kMostRanges = 64;
struct Range {
  uintptr_t begin, end;
  size_t least;  // bytes of an allocation that counts
};
Range ranges[kMostRanges];
int n_ranges = 0;
std::atomic<long> left{0};  // allocations until the failure; 0: nothing is counted
std::atomic<long> count{0};

bool Fails(size_t size, const void* caller) {
  if (left.load(std::memory_order_relaxed) == 0) return false;
  const auto address = reinterpret_cast<uintptr_t>(caller);
  bool counts = false;
  for (int i = 0; i < n_ranges; ++i) {
    const Range& range = ranges[i];
    counts = counts || (address >= range.begin && address < range.end && size >= range.least);
  }
  if (!counts) return false;
  count.fetch_add(1);
  if (left.fetch_sub(1) != 1) return false;
  left.store(-1);  // continues to count, and never reaches 1
  errno = ENOMEM;
  return true;
}

void* New(size_t size, size_t alignment, const void* caller) {
  return Fails(size, caller) ? nullptr : __libc_memalign(alignment, size);
}

void* NewOrThrow(size_t size, size_t alignment, const void* caller) {
  void* made = New(size, alignment, caller);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

#define CALLER __builtin_return_address(0)
constexpr size_t kUsual = 16;

extern "C" {

// Counts allocations of at least `least` bytes by code between two addresses.
void starve_count_from(uintptr_t begin, uintptr_t end, size_t least) {
  if (n_ranges < kMostRanges) ranges[n_ranges++] = {begin, end, least};
}

// Makes the k-th such allocation fail, in any thread; counting starts now.
void starve_arm(long k) {
  count.store(0);
  left.store(k);
}

// Stops counting; returns the number of allocations.
long starve_disarm() {
  left.store(0);
  return count.load();
}

void* malloc(size_t size) { return Fails(size, CALLER) ? nullptr : __libc_malloc(size); }
void* calloc(size_t n, size_t size) {
  return Fails(n * size, CALLER) ? nullptr : __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  return Fails(size, CALLER) ? nullptr : __libc_realloc(p, size);
}
void* memalign(size_t alignment, size_t size) { return New(size, alignment, CALLER); }
void* aligned_alloc(size_t alignment, size_t size) { return New(size, alignment, CALLER); }
int posix_memalign(void** p, size_t alignment, size_t size) {
  void* made = New(size, alignment, CALLER);
  if (made == nullptr) return ENOMEM;
  *p = made;
  return 0;
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  if (Fails(size, CALLER)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}

}  // extern "C"

void* operator new(size_t size) { return NewOrThrow(size, kUsual, CALLER); }
void* operator new[](size_t size) { return NewOrThrow(size, kUsual, CALLER); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return New(size, kUsual, CALLER);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return New(size, kUsual, CALLER);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return NewOrThrow(size, static_cast<size_t>(alignment), CALLER);
}
