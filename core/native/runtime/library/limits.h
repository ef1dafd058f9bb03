// Limits of numbers from plugins. Larger numbers are mistakes; sums of valid ones do not overflow.
#ifndef OPWRIGHT_RUNTIME_LIMITS_H_
#define OPWRIGHT_RUNTIME_LIMITS_H_

#include <cstdint>

namespace opwright {

constexpr int32_t kMaxThreads = 1024;                   // threads of one kernel
constexpr int32_t kMaxRank = 64;                        // NumPy's limit
constexpr uint64_t kMaxBytes = uint64_t{1} << 47;       // the address space of a process
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;   // size of the largest pages
constexpr uint64_t kMaxEstimateNs = uint64_t{1} << 50;  // two weeks; any long time suffices

inline bool IsAlignment(uint64_t n) { return n != 0 && n <= kMaxAlignment && (n & (n - 1)) == 0; }

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LIMITS_H_
