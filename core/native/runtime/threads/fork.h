// What a forked process must know: the threads of its parent are not there.
#ifndef OPWRIGHT_RUNTIME_FORK_H_
#define OPWRIGHT_RUNTIME_FORK_H_

#include <cstdint>

namespace opwright {

// How often this process and those before it were forked since the first call.
uint32_t ForkCount();

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_FORK_H_
