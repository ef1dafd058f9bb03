#include "runtime/library/plugin_table.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>

#include "runtime/library/limits.h"
#include "runtime/status.h"
#include "runtime/values/meta.h"

namespace opwright {

namespace {

// Far more entries than any plugin provides; a larger number means that the table was misread.
constexpr uint64_t kMaxCount = 1 << 16;
constexpr uint64_t kMaxStride = 1 << 16;
constexpr uint64_t kMaxNameBytes = 256;
constexpr uint64_t kMaxTextBytes = 4096;
constexpr uint64_t kMaxProtoBytes = 1 << 20;

template <typename... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  Throw(ErrorKind::kPlugin, parts...);
}

// Returns the length in bytes of the UTF-8 character at `text`, or 0 if it is invalid. Does not
// read beyond a NUL.
size_t CharacterBytes(const unsigned char* text) {
  const unsigned char first = text[0];
  const size_t n = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first > 0xF4) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  const bool is_overlong = (first == 0xE0 && text[1] < 0xA0) || (first == 0xF0 && text[1] < 0x90);
  const bool is_no_character =
      (first == 0xED && text[1] > 0x9F) || (first == 0xF4 && text[1] > 0x8F);
  return is_overlong || is_no_character ? 0 : n;
}

// Returns the reason why a string is invalid, or NULL if it is valid.
const char* FindTextFault(const char* text, uint64_t max_bytes) {
  if (text == nullptr) return "NULL";
  const size_t length = strnlen(text, max_bytes + 1);
  if (length == 0) return "an empty one";
  if (length > max_bytes) return "a longer one";
  const auto* bytes = reinterpret_cast<const unsigned char*>(text);
  for (size_t i = 0; i < length;) {
    const size_t n = CharacterBytes(bytes + i);
    if (n == 0) return "bytes that are not UTF-8";
    i += n;
  }
  return nullptr;
}

void CheckText(const std::string& who, const char* what, const char* text, uint64_t max_bytes) {
  const char* fault = FindTextFault(text, max_bytes);
  if (fault == nullptr) return;
  Fail(who, ": ", what, " must be a string of 1 to ", max_bytes, " bytes, got ", fault,
       "; fill it in");
}

void CheckName(const std::string& who, const char* what, const char* text) {
  CheckText(who, what, text, kMaxNameBytes);
}

// Checks an array of structs: if it has elements, it must be non-null and each element must have at
// least the size of version 1.0.
template <typename Struct>
void CheckArray(const char* what, const Struct* array, uint64_t count, uint64_t stride,
                uint64_t least) {
  if (count == 0) return;
  if (count > kMaxCount || array == nullptr) {
    Fail("plugin table: ", what, " must be an array of at most ", kMaxCount, ", got ", count,
         array == nullptr ? " at NULL" : "", "; fill in pointer, count and stride");
  }
  if (stride < least || stride > kMaxStride || stride % 8 != 0) {
    Fail("plugin table: the stride of ", what, " must be the sizeof of its struct, at least ",
         least, ", got ", stride, "; write sizeof");
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = OW_AT(Struct, array, stride, i)->size;
    if (size < least || size > stride) {
      Fail("plugin table: ", what, "[", i, "].size must be in ", least, " to the stride ", stride,
           ", got ", size, "; write sizeof");
    }
  }
}

// Formats the name of an entry for errors. Called for each entry; with a stream, the calls took
// most of the load time.
std::string EntryText(const char* table, uint64_t index) {
  return table + ("[" + std::to_string(index) + "]");
}

std::string KernelText(const ow_kernel& kernel) {
  return kernel.op_type + ("[" + std::string(kernel.device));
}

void CheckOp(const ow_op& op, uint64_t index) {
  CheckName(EntryText("ops", index), "type", op.type);
  const std::string who = op.type;
  if (op.proto == nullptr || op.proto_bytes == 0 || op.proto_bytes > kMaxProtoBytes) {
    Fail(who, ": an operator needs an OpProto of 1 to ", kMaxProtoBytes, " bytes, got ",
         op.proto_bytes, op.proto == nullptr ? " at NULL" : "", "; fill in proto and proto_bytes");
  }
  if (op.infer == nullptr) Fail(who, ": an operator needs infer, got NULL; fill it in");
  if (op.gradient_type != nullptr && op.no_gradient_reason != nullptr) {
    Fail(who, ": an operator has gradient_type or no_gradient_reason, got both; keep one");
  }
  if (op.gradient_type != nullptr) CheckName(who, "gradient_type", op.gradient_type);
  if (op.no_gradient_reason != nullptr) {
    CheckText(who, "no_gradient_reason", op.no_gradient_reason, kMaxTextBytes);
  }
  if (op.n_gradient_needs > kMaxNameBytes ||
      (op.n_gradient_needs != 0 && op.gradient_needs == nullptr)) {
    Fail(who, ": gradient_needs must be at most ", kMaxNameBytes, " slots, got ",
         op.n_gradient_needs, op.gradient_needs == nullptr ? " at NULL" : "");
  }
  for (uint32_t i = 0; i < op.n_gradient_needs; ++i) {
    CheckName(who, "a slot of gradient_needs", op.gradient_needs[i]);
  }
}

void CheckLists(const ow_kernel& kernel, const std::string& who) {
  if (kernel.n_dtypes > kMaxNameBytes || (kernel.n_dtypes != 0 && kernel.dtypes == nullptr)) {
    Fail(who, ": dtypes must be at most ", kMaxNameBytes, ", got ", kernel.n_dtypes,
         kernel.dtypes == nullptr ? " at NULL" : "", "; 0 stands for every dtype");
  }
  for (uint64_t i = 0; i < kernel.n_dtypes; ++i) {
    const DLDataType dtype = kernel.dtypes[i];  // an unknown dtype is from a later version
    if (dtype.bits == 0 || dtype.lanes == 0) {
      Fail(who, ": dtypes[", i, "] must have bits and lanes, got ", int{dtype.bits}, " and ",
           dtype.lanes, "; fill it in");
    }
  }
  if (kernel.n_may_reuse > kMaxNameBytes ||
      (kernel.n_may_reuse != 0 && kernel.may_reuse == nullptr)) {
    Fail(who, ": may_reuse must be at most ", kMaxNameBytes, " pairs, got ", kernel.n_may_reuse,
         kernel.may_reuse == nullptr ? " at NULL" : "");
  }
  for (uint64_t i = 0; i < kernel.n_may_reuse; ++i) {
    CheckName(who, "the output of may_reuse", kernel.may_reuse[i].output);
    CheckName(who, "the input of may_reuse", kernel.may_reuse[i].input);
  }
}

void CheckKernel(const ow_kernel& kernel, uint64_t index) {
  const std::string entry = EntryText("kernels", index);
  CheckName(entry, "op_type", kernel.op_type);
  CheckName(kernel.op_type + (": " + entry), "device", kernel.device);
  const std::string who = KernelText(kernel) + "]";
  if (kernel.library != nullptr) CheckName(who, "library", kernel.library);
  if (kernel.priority < 0 || kernel.priority > 99) {
    Fail(who, ": priority must be in 0 to 99, got ", kernel.priority, "; 50 is usual");
  }
  if ((kernel.flags & OW_KERNEL_NEEDS_GIL) != 0) {
    Fail(who, ": OW_KERNEL_NEEDS_GIL is the runtime's own flag, got it from a library; clear it");
  }
  CheckLists(kernel, who);
  CheckKernelTable(&kernel);
}

void CheckOps(const ow_plugin& plugin) {
  CheckArray("ops", plugin.ops, plugin.n_ops, plugin.op_stride, kOpSize10);
  std::set<std::string> types;
  for (uint64_t i = 0; i < plugin.n_ops; ++i) {
    const ow_op& op = OpAt(plugin, i);
    CheckOp(op, i);
    if (!types.insert(op.type).second) {
      Fail(op.type, ": an operator must be in the table once, got it twice; remove one");
    }
  }
}

void CheckKernels(const ow_plugin& plugin) {
  CheckArray("kernels", plugin.kernels, plugin.n_kernels, plugin.kernel_stride, kKernelSize10);
  std::set<std::string> keys;
  for (uint64_t i = 0; i < plugin.n_kernels; ++i) {
    const ow_kernel& kernel = KernelAt(plugin, i);
    CheckKernel(kernel, i);
    const char* library = kernel.library == nullptr ? plugin.name : kernel.library;
    const std::string key = KernelText(kernel) + ", " + library + "]";
    for (uint64_t d = 0; d < kernel.n_dtypes || (d == 0 && kernel.n_dtypes == 0); ++d) {
      const uint32_t code = kernel.n_dtypes == 0 ? 0 : DtypeToCode(kernel.dtypes[d]);
      if (!keys.insert(key + std::to_string(code)).second) {
        Fail(key, ": a kernel must be in the table once for a dtype, got it twice for ",
             code == 0 ? "every dtype" : DtypeName(kernel.dtypes[d]), "; remove one");
      }
    }
  }
}

// Checks that either all or none of the functions are set.
void CheckTogether(const std::string& who, const char* names, std::initializer_list<bool> there) {
  const auto n = static_cast<size_t>(std::count(there.begin(), there.end(), true));
  if (n == 0 || n == there.size()) return;
  Fail(who, ": ", names, " come together or not at all, got ", n, " of ", there.size(),
       "; fill in the others");
}

void CheckDevice(const ow_device& device, uint64_t index) {
  CheckName(EntryText("devices", index), "name", device.name);
  const std::string who = device.name;
  if ((device.flags & OW_DEVICE_NEEDS_GIL) != 0) {
    Fail(who, ": OW_DEVICE_NEEDS_GIL is the runtime's own flag, got it from a library; clear it");
  }
  const bool complete = device.count && device.open && device.close && device.allocate &&
                        device.free && device.copy && device.synchronize;
  if (!complete) {
    Fail(who,
         ": a device needs count, open, close, allocate, free, copy and synchronize, got NULL; "
         "fill them in");
  }
  const uint64_t least = (device.flags & OW_DEVICE_ADDRESSABLE) != 0 ? 64 : 1;
  if (!IsAlignment(device.alignment) || device.alignment < least) {
    Fail(who, ": alignment must be a power of two of ", least, " to ", kMaxAlignment, ", got ",
         device.alignment);
  }
  CheckTogether(who, "allocate_host and free_host",
                {device.allocate_host != nullptr, device.free_host != nullptr});
  CheckTogether(who, "the functions of streams and events",
                {device.stream_create != nullptr, device.stream_destroy != nullptr,
                 device.stream_synchronize != nullptr, device.event_create != nullptr,
                 device.event_destroy != nullptr, device.event_record != nullptr,
                 device.event_wait != nullptr, device.event_synchronize != nullptr});
  CheckTogether(who, "begin_capture, end_capture, replay and graph_destroy",
                {device.begin_capture != nullptr, device.end_capture != nullptr,
                 device.replay != nullptr, device.graph_destroy != nullptr});
  if (device.begin_capture != nullptr && device.stream_create == nullptr) {
    Fail(who,
         ": capture needs streams, got a device without; fill in stream_create and the others");
  }
}

void CheckDevices(const ow_plugin& plugin) {
  CheckArray("devices", plugin.devices, plugin.n_devices, plugin.device_stride, kDeviceSize10);
  std::set<std::string> names;
  for (uint64_t i = 0; i < plugin.n_devices; ++i) {
    const ow_device& device = DeviceAt(plugin, i);
    CheckDevice(device, i);
    if (!names.insert(device.name).second) {
      Fail(device.name, ": a device must be in the table once, got it twice; remove one");
    }
  }
}

}  // namespace

void CheckKernelTable(const ow_kernel* kernel) {
  if (kernel == nullptr || kernel->size < kKernelSize10) {
    Fail("kernel: the table must be an ow_kernel of ABI 1.0, got ",
         kernel == nullptr ? 0 : kernel->size, " bytes");
  }
  const bool lacks_release = kernel->prepare != nullptr && kernel->release == nullptr;
  const bool lacks_unbind = kernel->bind != nullptr && kernel->unbind == nullptr;
  if (kernel->run == nullptr || kernel->op_type == nullptr || lacks_release || lacks_unbind) {
    Fail(kernel->op_type ? kernel->op_type : "kernel",
         ": a kernel needs op_type, run, release if it has prepare, and unbind if it has bind, got "
         "NULL; fill them in");
  }
}

void CheckPluginTable(const ow_plugin* plugin) {
  if (plugin == nullptr) {
    Fail("plugin table: the entry function must set *plugin, got NULL; set it to the table");
  }
  if (plugin->size < kPluginSize10 || plugin->size > kMaxStride) {
    Fail("plugin table: size must be sizeof(ow_plugin), at least ", kPluginSize10, ", got ",
         plugin->size, "; write sizeof(ow_plugin)");
  }
  if (plugin->abi_major != OW_ABI_MAJOR) {
    Fail("plugin table: abi_major must be ", OW_ABI_MAJOR, " in a library that exports ",
         OW_PLUGIN_ENTRY, ", got ", plugin->abi_major, "; write OW_ABI_MAJOR");
  }
  CheckName("plugin table", "name", plugin->name);
  CheckName("plugin table", "version", plugin->version);
  CheckOps(*plugin);
  CheckKernels(*plugin);
  CheckDevices(*plugin);
}

}  // namespace opwright
