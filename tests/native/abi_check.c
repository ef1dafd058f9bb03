/* The interface in C11; the same file is compiled as C++17 (CMakeLists.txt). */
#include "opwright/run.h"

#ifdef __cplusplus
#define STATIC_CHECK(condition) static_assert(condition, #condition)
#else
#define STATIC_CHECK(condition) _Static_assert(condition, #condition)
#endif

/* The layout of version 1.1: a change here breaks libraries that exist. */
STATIC_CHECK(sizeof(ow_string) == 16);
STATIC_CHECK(sizeof(ow_reuse) == 16);
STATIC_CHECK(sizeof(ow_pack) == 16);
STATIC_CHECK(sizeof(ow_error) == 16);
STATIC_CHECK(sizeof(ow_attr) == 96);
STATIC_CHECK(sizeof(ow_prepare) == 184);
STATIC_CHECK(sizeof(ow_call) == 104);
STATIC_CHECK(sizeof(ow_infer) == 104);
STATIC_CHECK(sizeof(ow_kernel) == 128);
STATIC_CHECK(sizeof(ow_op) == 72);
STATIC_CHECK(sizeof(ow_device) == 216);
STATIC_CHECK(sizeof(ow_host) == 80);
STATIC_CHECK(sizeof(ow_plugin) == 104);
STATIC_CHECK(sizeof(ow_open_options) == 24);
STATIC_CHECK(sizeof(ow_description) == 56);
STATIC_CHECK(sizeof(ow_requirement) == 48);
STATIC_CHECK(offsetof(ow_call, message_bytes) == 96);
STATIC_CHECK(offsetof(ow_kernel, run) == 120);
STATIC_CHECK(offsetof(ow_host, parallel) == 64); /* where version 1.0 ended */

int abi_check(void) {
  /* A peer that knew ow_attr only up to `count`. */
  ow_attr attr;
  attr.size = offsetof(ow_attr, int_value);
  return OW_HAS(&attr, count) && !OW_HAS(&attr, int_value) && !OW_HAS(&attr, bools) ? 0 : 1;
}
