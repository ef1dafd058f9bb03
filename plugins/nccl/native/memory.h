// GPU memory that a kernel keeps between runs.
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

  // Allocates memory with NCCL, so it can be registered; does nothing for 0 bytes.
  opwright::Status Allocate(void* device, int64_t bytes);
  Address address() const { return reinterpret_cast<Address>(pointer_); }

 private:
  void* device_ = nullptr;
  void* pointer_ = nullptr;
};

// The resources that every kernel needs: events, and memory for a few scalars.
struct Scratch {
  Fork fork;
  Memory memory;
};

// Several tensors that are reduced together.
struct Bucket : Scratch {
  ~Bucket();
  bool is_under_way = false;  // started but not awaited yet
  // Makes the call stream wait and writes the results; set by the kernel that started the bucket.
  std::function<opwright::Status(const opwright::RunContext&)> unpack;
};

// Registers a started bucket by the address of its handle. The handle exists as long as the bucket.
// When a graph is recorded, a bucket is looked up only once.
void KeepBucket(const void* handle, Bucket* bucket);
Bucket* FindBucket(const void* handle);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_MEMORY_H_
