// Detects forked processes, which lack the threads of their parents.
#ifndef OPWRIGHT_RUNTIME_FORK_H_
#define OPWRIGHT_RUNTIME_FORK_H_

#include <cstdint>

namespace opwright {

// Returns the number of forks between the first call and this process.
uint32_t ForkCount();

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_FORK_H_
