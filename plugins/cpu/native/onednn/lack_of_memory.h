// Ensures that a failed allocation leaves no state in oneDNN.
//
// oneDNN writes into small objects without checking whether their allocation succeeded, so it is
// called only if enough memory is free. If a larger allocation fails, oneDNN skips that
// implementation and uses a slower one, or reports that none exists. Either result would be cached
// for the lifetime of the process. Whether an allocation failed is therefore read from errno, not
// only from the status of oneDNN.
#ifndef OPWRIGHT_CPU_ONEDNN_LACK_OF_MEMORY_H_
#define OPWRIGHT_CPU_ONEDNN_LACK_OF_MEMORY_H_

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <opwright/sdk.hpp>

#include "onednn/dnnl.h"

namespace opwright_cpu {

// Checks the status of a oneDNN function. Lack of memory is thrown as std::bad_alloc, which is
// handled at the boundary of the library.
inline void CheckOneDnn(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  dnnl::error::wrap_c_api(status, what);
}

// Throws std::bad_alloc if less memory is available than oneDNN needs for a kernel. The memory is
// requested from the system, because such a large block would change the thresholds of the
// allocator.
inline void CheckRoom() {
  constexpr size_t kRoomBytes = size_t{16} << 20;
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
  void* room = mmap(nullptr, kRoomBytes, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, kRoomBytes);
}

// Calls a function in a new thread, which is unaffected by an earlier failure in this thread.
template <typename Function>
void CallInNewThread(const Function& function) {
  std::exception_ptr failure;
  try {
    std::thread([&] {
      try {
        function();
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
  } catch (const std::system_error&) {
    throw std::bad_alloc();  // memory is insufficient even for a thread
  }
  if (failure) std::rethrow_exception(failure);
}

// Calls a function that creates oneDNN objects; returns whether memory sufficed for all of them.
template <typename Function>
bool HadMemory(const Function& function) {
  CheckRoom();
  errno = 0;
  try {
    function();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory && errno != ENOMEM) throw;
    return false;
  }
  return errno != ENOMEM;
}

// Calls the function and, if memory was insufficient, calls it a second time in a new thread.
// The function must be safe to repeat. A new thread is used because oneDNN's code generator keeps
// its first error for the lifetime of a thread, so everything that this thread creates afterward
// fails, too.
template <typename Function>
void CallOneDnn(const Function& function) {
  if (HadMemory(function)) return;
  CallInNewThread([&] {
    if (!HadMemory(function)) throw std::bad_alloc();
  });
}

// Calls prepare(&made) through CallOneDnn, where `made` is a new kernel that replaces *kernel.
template <typename Kernel, typename Function>
opwright::Status PrepareWithMemory(Kernel* kernel, const Function& prepare) {
  opwright::Status status;
  CallOneDnn([&] {
    Kernel made;
    status = prepare(&made);
    *kernel = std::move(made);
  });
  return status;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_LACK_OF_MEMORY_H_
