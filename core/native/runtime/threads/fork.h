// Detects forked processes, which lack the threads of their parents.
#ifndef OPWRIGHT_RUNTIME_FORK_H_
#define OPWRIGHT_RUNTIME_FORK_H_

#include <cstdint>

namespace opwright {

// The number of forks that led to this process since the first call.
uint32_t ForkCount();

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_FORK_H_
