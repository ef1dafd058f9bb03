// Checks the tables of a plugin library before they are used.
#ifndef OPWRIGHT_RUNTIME_PLUGIN_TABLE_H_
#define OPWRIGHT_RUNTIME_PLUGIN_TABLE_H_

#include <cstdint>

#include "opwright/abi.h"

namespace opwright {

// Sizes of the structs in version 1.0, the minimum for every library; later versions added fields.
constexpr uint64_t kPluginSize10 = 104;
constexpr uint64_t kOpSize10 = 72;
constexpr uint64_t kKernelSize10 = 128;
constexpr uint64_t kDeviceSize10 = 216;

// Both functions throw kPlugin with the broken rule and the value that breaks it.
void CheckKernelTable(const ow_kernel* kernel);
// Checks the table and its contents: sizes, strides, counts, names, and functions that must be set
// together.
void CheckPluginTable(const ow_plugin* plugin);

inline const ow_op& OpAt(const ow_plugin& plugin, uint64_t i) {
  return *OW_AT(ow_op, plugin.ops, plugin.op_stride, i);
}
inline const ow_kernel& KernelAt(const ow_plugin& plugin, uint64_t i) {
  return *OW_AT(ow_kernel, plugin.kernels, plugin.kernel_stride, i);
}
inline const ow_device& DeviceAt(const ow_plugin& plugin, uint64_t i) {
  return *OW_AT(ow_device, plugin.devices, plugin.device_stride, i);
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PLUGIN_TABLE_H_
