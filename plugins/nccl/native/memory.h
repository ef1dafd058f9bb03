// Memory of the GPU that a kernel keeps from run to run.
#ifndef OPWRIGHT_NCCL_MEMORY_H_
#define OPWRIGHT_NCCL_MEMORY_H_

#include <cstdint>
#include <functional>

#include "cuda.h"
#include "group.h"
#include "opwright/sdk.hpp"

namespace opwright_nccl {

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Of NCCL's own kind, which it could register; nothing for 0 bytes.
  opwright::Status Allocate(void* device, int64_t bytes);
  Address address() const { return reinterpret_cast<Address>(pointer_); }

 private:
  void* device_ = nullptr;
  void* pointer_ = nullptr;
};

// What most kernels bind: events, and a few numbers.
struct Scratch {
  Fork fork;
  Memory memory;
};

// Several tensors that are reduced as one.
struct Bucket : Scratch {
  ~Bucket();
  bool is_under_way = false;  // started, and not awaited yet
  // Of the kernel that started it: lets a stream wait, and writes the results.
  std::function<opwright::Status(const opwright::RunContext&)> unpack;
};

// Where a start has put its bucket: a wait finds it by the address of the handle, which lives as
// long. What is recorded in a graph needs to be found once alone.
void KeepBucket(const void* handle, Bucket* bucket);
Bucket* FindBucket(const void* handle);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_MEMORY_H_
