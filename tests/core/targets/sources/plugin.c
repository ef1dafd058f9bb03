/* The correct plugin, and variants with a malformed table: -DFAULT='statement'. */
#include "scale.h"

#ifndef FAULT
#define FAULT
#endif
#ifndef ENTRY
#define ENTRY opwright_plugin_v1
#endif

EXPORT int32_t ENTRY(const ow_host* host, const ow_plugin** out) {
  static ow_plugin plugin;
  static ow_op ops[2];
  static ow_kernel kernels[2];
  (void)host;
  plugin = scale_make_plugin();
  ops[0] = plugin.ops[0];
  ops[1] = plugin.ops[0];
  kernels[0] = plugin.kernels[0];
  kernels[1] = plugin.kernels[1];
  plugin.ops = ops;
  plugin.kernels = kernels;
  *out = &plugin;
  FAULT;
  return OW_OK;
}

/* For the tests: the number of prepared kernels not yet released. */
EXPORT int count_states(void) { return alive_states; }
