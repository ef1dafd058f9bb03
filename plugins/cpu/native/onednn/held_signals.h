// Blocks signals while oneDNN's stack pointer is in the heap.
//
// Before version 3.11.2, oneDNN's code for float32 products packs a factor in the heap if a sum is
// too long for the stack, and points the stack pointer there. When a signal arrives, the system
// stores the frame of its handler below the stack pointer, and would overwrite data in the heap.
#ifndef OPWRIGHT_CPU_ONEDNN_HELD_SIGNALS_H_
#define OPWRIGHT_CPU_ONEDNN_HELD_SIGNALS_H_

#include <omp.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks of signals are POSIX

#include <cstdint>
#include <cstring>

#include "onednn/dnnl.h"

namespace opwright_cpu {

// Returns whether the code of a primitive may point the stack pointer to the heap.
inline bool MovesStack(const dnnl::primitive_desc_base& description) {
  constexpr int64_t kLongestOnStack = 84;  // terms of a sum with AVX-512; 252 with AVX2
  if (std::strstr(description.impl_info_str(), "gemm:jit") == nullptr) return false;
  if (description.get_kind() != dnnl::primitive::kind::matmul) return true;
  const int64_t terms = description.query_md(dnnl::query::src_md).get_dims().back();
  return terms == DNNL_RUNTIME_DIM_VAL || terms > kLongestOnStack;
}

// While an object exists, no signal handler runs in the calling thread or in its OpenMP threads.
// Afterward, the OpenMP threads still do not handle signals, which leaves them to the main thread.
// Faults are not blocked, because a blocked fault terminates the process without calling its
// handler.
class HeldSignals {
 public:
  HeldSignals() {
    const sigset_t held = Held();
    pthread_sigmask(SIG_BLOCK, &held, &before_);
    if (omp_get_max_threads() == 1) return;
#pragma omp parallel
    pthread_sigmask(SIG_BLOCK, &held, nullptr);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  static sigset_t Held() {
    sigset_t held;
    sigfillset(&held);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&held, fault);
    }
    return held;
  }

  sigset_t before_;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_HELD_SIGNALS_H_
