// The C++ version of the plugin; FAULT can throw, or install functions that throw.
#include "scale.h"

#ifndef FAULT
#define FAULT
#endif

EXPORT int32_t opwright_plugin_v1(const ow_host* host, const ow_plugin** out) {
  static ow_plugin plugin;
  (void)host;
  plugin = scale_make_plugin();
  *out = &plugin;
  FAULT;
  return OW_OK;
}
