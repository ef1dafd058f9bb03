// Annotations that tell sanitizers that fibers have separate stacks and that some waits order
// memory on a GPU. Without sanitizers, the annotations are empty.
#ifndef OPWRIGHT_CUDA_EMULATOR_SANITIZERS_H_
#define OPWRIGHT_CUDA_EMULATOR_SANITIZERS_H_

#include <cstddef>

#if defined(OPWRIGHT_WATCH_MEMORY)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(OPWRIGHT_WATCH_THREADS)
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace shim {

// ---- AddressSanitizer
// ----------------------------------------------------------------------------

struct Stack {
  const void* memory = nullptr;
  size_t bytes = 0;
};

#if defined(OPWRIGHT_WATCH_MEMORY)

constexpr bool kWatchesMemory = true;

// Called before a switch. `kept` stores the state of the stack that is left; it is null if this
// stack is abandoned.
inline void BeginSwitch(void** kept, const Stack& to) {
  __sanitizer_start_switch_fiber(kept, to.memory, to.bytes);
}
// Called after a switch; `from` receives the stack that was left.
inline void EndSwitch(void* kept, Stack* from) {
  __sanitizer_finish_switch_fiber(kept, from == nullptr ? nullptr : &from->memory,
                                  from == nullptr ? nullptr : &from->bytes);
}
// An abandoned fiber leaves the red zones of its variables poisoned.
inline void Clean(const void* memory, size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}

#else

constexpr bool kWatchesMemory = false;

inline void BeginSwitch(void**, const Stack&) {}
inline void EndSwitch(void*, Stack*) {}
inline void Clean(const void*, size_t) {}

#endif

// ---- ThreadSanitizer
// -----------------------------------------------------------------------------

#if defined(OPWRIGHT_WATCH_THREADS)

constexpr bool kWatchesThreads = true;

// A fiber, which ThreadSanitizer treats as a thread whose accesses are ordered only by tokens.
using Strand = void*;
inline Strand ThisStrand() { return __tsan_get_current_fiber(); }
inline Strand NewStrand() { return __tsan_create_fiber(0); }
inline void EndStrand(Strand strand) { __tsan_destroy_fiber(strand); }
inline void ContinueStrand(Strand strand) {
  __tsan_switch_to_fiber(strand, __tsan_switch_to_fiber_no_sync);
}

// While an object exists, ThreadSanitizer ignores the accesses of this thread.
class Unseen {
 public:
  Unseen() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// Acquire synchronizes with Release of the same token.
inline void Release(void* token) { __tsan_release(token); }
inline void Acquire(void* token) { __tsan_acquire(token); }

#else

constexpr bool kWatchesThreads = false;

struct Strand {};
inline Strand ThisStrand() { return {}; }
inline Strand NewStrand() { return {}; }
inline void EndStrand(Strand) {}
inline void ContinueStrand(Strand) {}

class Unseen {
 public:
  Unseen() {}
  ~Unseen() {}
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

inline void Release(void*) {}
inline void Acquire(void*) {}

#endif

}  // namespace shim

#endif  // OPWRIGHT_CUDA_EMULATOR_SANITIZERS_H_
