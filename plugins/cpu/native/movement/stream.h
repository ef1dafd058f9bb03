// Copies and fills long rows, bypassing the caches if the data is too large for them.
#ifndef OPWRIGHT_CPU_MOVEMENT_STREAM_H_
#define OPWRIGHT_CPU_MOVEMENT_STREAM_H_

#include <cstdint>

#include "common/stream.h"

namespace opwright_cpu {

constexpr int64_t kLeastStreamBytes = 8192;  // minimum bytes per row: two pages

// Copies n bytes; source and destination must not overlap.
void CopyBytes(const char* source, char* destination, int64_t n, int32_t n_threads);

// Sets n bytes to 0.
void ZeroBytes(char* destination, int64_t n, int32_t n_threads);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_MOVEMENT_STREAM_H_
