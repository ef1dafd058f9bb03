// Copying and filling long rows, past the caches where they are too many for them.
#ifndef OPWRIGHT_CPU_MOVEMENT_STREAM_H_
#define OPWRIGHT_CPU_MOVEMENT_STREAM_H_

#include <cstdint>

namespace opwright_cpu {

// From this size on nothing of the result is left in the caches when all is written, and ordinary
// stores only cost: each reads the line that it is about to overwrite.
constexpr int64_t kStreamBytes = 16 * 1024 * 1024;
constexpr int64_t kLeastStreamBytes = 8192;  // of a row: two pages

// Copies n bytes that do not overlap with stores that pass the caches; a fence must follow.
void StreamCopy(const char* source, char* destination, int64_t n);

// Lets other threads see what was stored past the caches before what is stored from now on.
void StreamFence();

// Copies n bytes that do not overlap.
void CopyBytes(const char* source, char* destination, int64_t n, int32_t n_threads);

// Sets n bytes to 0.
void ZeroBytes(char* destination, int64_t n, int32_t n_threads);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_STREAM_H_
