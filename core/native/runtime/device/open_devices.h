// The devices that are open in this process, so that whoever names one gets the same.
#ifndef OPWRIGHT_RUNTIME_OPEN_DEVICES_H_
#define OPWRIGHT_RUNTIME_OPEN_DEVICES_H_

#include <cstdint>
#include <memory>

#include "runtime/device/device.h"

namespace opwright {

// A device is what provides it, a table of a library or a Python object, and its number. It must
// keep its source alive: then no other source has this address while the device is open. It is not
// held here, and so closed with its last user. Both functions are safe to call from several
// threads.

// Null where none is open.
std::shared_ptr<Device> FindOpenDevice(const void* source, int32_t number);

// Enters a device that was opened; returns the one that was entered before where it is still open.
std::shared_ptr<Device> KeepOpenDevice(const void* source, int32_t number,
                                       std::shared_ptr<Device> device);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_OPEN_DEVICES_H_
