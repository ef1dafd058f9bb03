// The host as a device, through the same table that a plugin's device fills in.
#include <cstring>

#include "runtime/device/device.h"
#include "runtime/device/host_memory.h"

namespace opwright {

namespace {

int32_t Count(const ow_device*, int32_t* n, const ow_error*) {
  *n = 1;
  return OW_OK;
}

int32_t Open(const ow_device*, int32_t, void** state, const ow_error*) {
  *state = nullptr;
  return OW_OK;
}

void Close(void*) {}

int32_t Allocate(void*, uint64_t bytes, void** handle, const ow_error*) {
  *handle = AllocateHost(bytes);
  return *handle != nullptr ? OW_OK : OW_OUT_OF_MEMORY;
}

void Free(void*, void* handle) { FreeHost(handle); }

int32_t Copy(void*, void*, void* destination, int32_t, const void* source, int32_t, uint64_t bytes,
             const ow_error*) {
  std::memmove(destination, source, bytes);
  return OW_OK;
}

int32_t Synchronize(void*, const ow_error*) { return OW_OK; }

ow_device HostTable() {
  ow_device table{};
  table.size = sizeof(table);
  table.name = "cpu";
  table.dlpack_code = kDLCPU;
  table.flags = OW_DEVICE_ADDRESSABLE | OW_DEVICE_HOST_MEMORY;
  table.alignment = kHostAlignment;
  table.count = Count;
  table.open = Open;
  table.close = Close;
  table.allocate = Allocate;
  table.free = Free;
  table.copy = Copy;
  table.synchronize = Synchronize;
  return table;
}

}  // namespace

const std::shared_ptr<Device>& HostDevice() {
  static const ow_device table = HostTable();
  // Never destroyed, since tensors may outlive every static at exit.
  static const auto* device =
      new std::shared_ptr<Device>(MakeRetirable<Device>(&table, 0, nullptr));
  return *device;
}

}  // namespace opwright
