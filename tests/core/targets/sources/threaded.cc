// A plugin that starts a thread which runs until the process exits, as OpenMP does.
#include <pthread.h>
#include <unistd.h>

#include "scale.h"

static void* Work(void*) {
  for (;;) usleep(1000);
  return nullptr;
}

EXPORT int32_t opwright_plugin_v1(const ow_host* host, const ow_plugin** out) {
  static ow_plugin plugin;
  (void)host;
  plugin = scale_make_plugin();
  *out = &plugin;
  pthread_t thread;
  return pthread_create(&thread, nullptr, Work, nullptr) == 0 ? OW_OK : OW_ERROR;
}
