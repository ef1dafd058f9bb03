// Memory of the host: arenas, tensors and results.
#ifndef OPWRIGHT_RUNTIME_HOST_MEMORY_H_
#define OPWRIGHT_RUNTIME_HOST_MEMORY_H_

#include <cstdint>

namespace opwright {

// What every block is aligned to at least: a cache line, and the widest vector register.
constexpr uint64_t kHostAlignment = 64;

// Bytes of freed large blocks that are kept for the next request.
constexpr uint64_t kMostKeptBytes = uint64_t{128} << 20;

// Returns a block, or null if there is no memory for it. `alignment` is a power of two.
//
// A large block comes from one that was freed before, where one of about that size is kept: the
// kernel of the system clears each page that it hands out anew, which for a result of 64 MB takes
// longer than to compute it.
void* AllocateHost(uint64_t bytes, uint64_t alignment = kHostAlignment) noexcept;

// Gives a block back; null is allowed.
void FreeHost(void* block) noexcept;

// Bytes of the blocks that are kept; and gives them back to the system.
uint64_t KeptHostBytes() noexcept;
uint64_t FreeKeptHost() noexcept;

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_HOST_MEMORY_H_
