// The open devices of this process; all users of a device share it.
#ifndef OPWRIGHT_RUNTIME_OPEN_DEVICES_H_
#define OPWRIGHT_RUNTIME_OPEN_DEVICES_H_

#include <cstdint>
#include <memory>

#include "runtime/device/device.h"

namespace opwright {

// A device is identified by its source (a library's table or a Python object) and its number. The
// device must keep its source alive so that no other source gets the same address while the device
// is open. This table does not own devices, so a device is closed when its last user releases it.
// Both functions are thread-safe.

// Returns null if the device is not open.
std::shared_ptr<Device> FindOpenDevice(const void* source, int32_t number);

// Adds an opened device; returns the previously added device if it is still open.
std::shared_ptr<Device> KeepOpenDevice(const void* source, int32_t number,
                                       std::shared_ptr<Device> device);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_OPEN_DEVICES_H_
