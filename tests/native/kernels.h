// Compiled kernels for tests, with the interface of plugin kernels.
#ifndef OPWRIGHT_TESTS_KERNELS_H_
#define OPWRIGHT_TESTS_KERNELS_H_

#include "opwright/abi.h"

#define OW_TEST_EXPORT extern "C" __attribute__((visibility("default")))

OW_TEST_EXPORT const ow_kernel* find_kernel(const char* name);

// Return whether the kernel "wait" is running, and let it finish.
OW_TEST_EXPORT int is_waiting();
OW_TEST_EXPORT void let_go();

#undef OW_TEST_EXPORT

#endif  // OPWRIGHT_TESTS_KERNELS_H_
