// A point in a device's stream; the host, or another stream, can wait for it.
#ifndef OPWRIGHT_RUNTIME_EVENT_H_
#define OPWRIGHT_RUNTIME_EVENT_H_

#include <memory>

#include "runtime/device/device.h"

namespace opwright {

class Event {
 public:
  // Throws kKernel with the device's message.
  explicit Event(std::shared_ptr<Device> device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Records the point after all work on the device's stream so far.
  int32_t Record(const ow_error* error) noexcept { return Record(device_->stream(), error); }
  // Waits for the work before the point, or for the whole stream if nothing was recorded since
  // Forget or the device has no events.
  int32_t Wait(const ow_error* error) noexcept;
  void Forget() noexcept { is_recorded_ = false; }
  // Makes the device's stream wait for the current work on another library's stream; throws
  // kKernel.
  void OrderBehind(void* stream) { Order(stream, device_->stream(), stream); }
  // Makes later work on that stream wait for the device's stream.
  void OrderAhead(void* stream) { Order(device_->stream(), stream, stream); }

 private:
  int32_t Record(void* stream, const ow_error* error) noexcept;
  void Order(void* first, void* second, void* foreign);

  std::shared_ptr<Device> device_;
  void* event_ = nullptr;  // NULL on devices without events
  bool is_recorded_ = false;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_EVENT_H_
