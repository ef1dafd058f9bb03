// The entry of the library: every kernel of it. It loads with any oneDNN that
// the loader finds, and says no to another version than it was built for.
#include <oneapi/dnnl/dnnl.hpp>
#include <opwright/sdk.hpp>

namespace {

int32_t RefuseVersion(const ow_host* host, const dnnl_version_t& found, const ow_plugin** plugin) {
  static const auto* tables = new opwright::detail::PluginTables("cpu", OPWRIGHT_PLUGIN_VERSION);
  const std::string message = opwright::detail::Concat(
      "cpu: oneDNN must be of version 3, got ", found.major, ".", found.minor, ".", found.patch,
      "; install onednn-cpu-gomp of 2023.2 or newer");
  *plugin = tables->plugin();
  if (host != nullptr && host->log != nullptr) host->log(OW_LOG_ERROR, message.c_str());
  return OW_ERROR;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int32_t
opwright_plugin_v1(const ow_host* host, const ow_plugin** plugin) {
  const dnnl_version_t* found = dnnl_version();
  if (found->major != DNNL_VERSION_MAJOR) return RefuseVersion(host, *found, plugin);
  // Plans and their Context keep what is prepared. oneDNN's own cache would keep beside it what it
  // could not make in a moment without memory, and crash on it later.
  dnnl_set_primitive_cache_capacity(0);
  return opwright::detail::EnterPlugin(host, plugin, "cpu", OPWRIGHT_PLUGIN_VERSION, "");
}
