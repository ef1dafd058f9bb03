#include "runtime/device/event.h"

#include <utility>

#include "runtime/border.h"
#include "runtime/status.h"

namespace opwright {

Event::Event(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const ow_device& table = *device_->table();
  if (device_->stream() == nullptr) return;
  char text[512] = {0};
  const ow_error error{text, sizeof(text)};
  const int32_t status = CallAtBorder(
      text, sizeof(text), [&] { return table.event_create(device_->state(), &event_, &error); });
  if (status == OW_OK) return;
  Throw(ErrorKind::kKernel, device_->name(), ": making an event failed with status ", status,
        text[0] ? ": " : "", text);
}

Event::~Event() {
  if (event_ == nullptr) return;
  FreeAtBorder("a device's event_destroy ",
               [this] { device_->table()->event_destroy(device_->state(), event_); });
}

int32_t Event::Record(void* stream, const ow_error* error) noexcept {
  if (event_ == nullptr) return OW_OK;
  const int32_t status = CallAtBorder(error->message, error->message_bytes, [&] {
    return device_->table()->event_record(device_->state(), event_, stream, error);
  });
  is_recorded_ = status == OW_OK;
  return status;
}

int32_t Event::Wait(const ow_error* error) noexcept {
  if (event_ == nullptr || !is_recorded_) return device_->Synchronize(device_->stream(), error);
  return CallAtBorder(error->message, error->message_bytes, [&] {
    return device_->table()->event_synchronize(device_->state(), event_, error);
  });
}

void Event::Order(void* first, void* second, void* foreign) {
  if (event_ == nullptr) {
    device_->Synchronize();
    return;
  }
  char text[512] = {0};
  const ow_error error{text, sizeof(text)};
  int32_t status = Record(first, &error);
  if (status == OW_OK) {
    status = CallAtBorder(text, sizeof(text), [&] {
      return device_->table()->event_wait(device_->state(), event_, second, &error);
    });
  }
  if (status == OW_OK) return;
  Throw(ErrorKind::kKernel, device_->name(), ": waiting for stream ",
        reinterpret_cast<uintptr_t>(foreign), " of another library failed with status ", status,
        text[0] ? ": " : "", text);
}

}  // namespace opwright
