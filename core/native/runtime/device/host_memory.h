// Memory of the host: arenas, tensors and results.
#ifndef OPWRIGHT_RUNTIME_HOST_MEMORY_H_
#define OPWRIGHT_RUNTIME_HOST_MEMORY_H_

#include <cstdint>

namespace opwright {

// The minimum alignment of every block: the size of a cache line and of the widest vector register.
constexpr uint64_t kHostAlignment = 64;

// Bytes of freed large blocks that are kept for the next request.
constexpr uint64_t kMostKeptBytes = uint64_t{128} << 20;

// Returns a block, or null if memory is insufficient. `alignment` is a power of two.
//
// A request for a large block reuses a freed block of similar size if possible, because the
// operating system clears each new page, which takes longer for a result of 64 MB than computing
// it.
void* AllocateHost(uint64_t bytes, uint64_t alignment = kHostAlignment) noexcept;

// Frees a block; null is allowed.
void FreeHost(void* block) noexcept;

// KeptHostBytes returns the bytes of kept blocks; FreeKeptHost returns the blocks to the system.
uint64_t KeptHostBytes() noexcept;
uint64_t FreeKeptHost() noexcept;

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_HOST_MEMORY_H_
