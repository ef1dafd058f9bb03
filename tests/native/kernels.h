// Compiled kernels for tests, as a plugin would provide them.
#ifndef OPWRIGHT_TESTS_KERNELS_H_
#define OPWRIGHT_TESTS_KERNELS_H_

#include "opwright/abi.h"

extern "C" __attribute__((visibility("default"))) const ow_kernel* find_kernel(const char* name);

#endif  // OPWRIGHT_TESTS_KERNELS_H_
