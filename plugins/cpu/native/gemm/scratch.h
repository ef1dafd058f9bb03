// Memory for the panels of a product, separate for each thread.
#ifndef OPWRIGHT_CPU_GEMM_SCRATCH_H_
#define OPWRIGHT_CPU_GEMM_SCRATCH_H_

#include <memory>
#include <new>

#include "gemm/gemm.h"

namespace opwright_cpu {

struct FreeScratch {
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};

// Returns kGemmScratch uninitialized elements that belong to the calling thread. The elements are
// on the heap because thread-local static memory, 160 KB per use, would be cleared by the loader
// before a kernel's first call. Throws std::bad_alloc.
template <typename T>
T* ThreadScratch() {
  static thread_local const std::unique_ptr<T, FreeScratch> scratch(
      static_cast<T*>(::operator new(kGemmScratch * sizeof(T), std::align_val_t{64})));
  return scratch.get();
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_SCRATCH_H_
