#include "runtime/device/open_devices.h"

#include <map>
#include <mutex>
#include <utility>

namespace opwright {

namespace {

using Source = std::pair<const void*, int32_t>;

struct OpenDevices {
  std::mutex mutex;
  std::map<Source, std::weak_ptr<Device>> by_source;
};

OpenDevices& Devices() {
  static auto* devices = new OpenDevices;  // never freed, since devices may outlive statics
  return *devices;
}

}  // namespace

std::shared_ptr<Device> FindOpenDevice(const void* source, int32_t number) {
  OpenDevices& devices = Devices();
  const std::lock_guard<std::mutex> lock(devices.mutex);
  const auto found = devices.by_source.find({source, number});
  return found == devices.by_source.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Device> KeepOpenDevice(const void* source, int32_t number,
                                       std::shared_ptr<Device> device) {
  OpenDevices& devices = Devices();
  const std::lock_guard<std::mutex> lock(devices.mutex);
  for (auto it = devices.by_source.begin(); it != devices.by_source.end();) {
    it = it->second.expired() ? devices.by_source.erase(it) : std::next(it);
  }
  std::weak_ptr<Device>& known = devices.by_source[{source, number}];
  if (auto first = known.lock()) return first;
  known = device;
  return device;
}

}  // namespace opwright
