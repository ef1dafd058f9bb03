// A point in the stream of a device that the host, or another stream, can wait for.
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

  // Takes the place behind everything that is on the device's stream now.
  int32_t Record(const ow_error* error) noexcept { return Record(device_->stream(), error); }
  // Waits for what was before the place; for all of the stream where nothing was recorded since
  // Forget, or the device has no events.
  int32_t Wait(const ow_error* error) noexcept;
  void Forget() noexcept { is_recorded_ = false; }
  // Lets the device's stream wait for what is on a stream of another library now; throws kKernel.
  void OrderBehind(void* stream) { Order(stream, device_->stream(), stream); }
  // The reverse: what is enqueued on that stream from now on waits for the device's stream.
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
