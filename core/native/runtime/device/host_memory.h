// Memory of the host: arenas, tensors and results.
#ifndef OPWRIGHT_RUNTIME_HOST_MEMORY_H_
#define OPWRIGHT_RUNTIME_HOST_MEMORY_H_

#include <cstdint>

namespace opwright {

// The least alignment of every block: a cache line, and the widest vector register.
constexpr uint64_t kHostAlignment = 64;

// Bytes of freed large blocks that are kept for the next request.
constexpr uint64_t kMostKeptBytes = uint64_t{128} << 20;

// Returns a block, or null if there is no memory for it. `alignment` is a power of two.
//
// A large block reuses a freed one of about that size, if there is one: the
// operating system clears each new page, which for a result of 64 MB takes
// longer than computing it.
void* AllocateHost(uint64_t bytes, uint64_t alignment = kHostAlignment) noexcept;

// Frees a block; null is allowed.
void FreeHost(void* block) noexcept;

// The bytes of kept blocks; and returns them to the system.
uint64_t KeptHostBytes() noexcept;
uint64_t FreeKeptHost() noexcept;

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_HOST_MEMORY_H_
