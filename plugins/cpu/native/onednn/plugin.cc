// The entry point of the library, which registers all of its kernels. The library loads with any
// oneDNN that the loader finds; dnnl.cc rejects a major version that differs from that of the
// build.
#include <exception>
#include <new>

#include <opwright/sdk.hpp>

#include "onednn/dnnl.h"

extern "C" __attribute__((visibility("default"))) int32_t
opwright_plugin_v1(const ow_host* host, const ow_plugin** plugin) {
  try {
    opwright_cpu::CheckDnnlExists();
  } catch (const std::bad_alloc&) {
    return OW_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    static const auto* tables = new opwright::detail::PluginTables("cpu", OPWRIGHT_PLUGIN_VERSION);
    *plugin = tables->plugin();
    if (host != nullptr && host->log != nullptr) host->log(OW_LOG_ERROR, error.what());
    return OW_ERROR;
  }
  return opwright::detail::EnterPlugin(host, plugin, "cpu", OPWRIGHT_PLUGIN_VERSION, "");
}
