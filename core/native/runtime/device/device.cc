#include "runtime/device/device.h"

#include <utility>

#include "runtime/border.h"
#include "runtime/status.h"

namespace opwright {

namespace {

constexpr int32_t kMaxDevices = 4096;

// A message buffer for one call into a device's table.
struct ErrorBuffer {
  char text[512] = {0};
  ow_error error{text, sizeof(text)};
};

template <typename Function>
int32_t Call(const ow_error* error, const Function& function) noexcept {
  return CallAtBorder(error->message, error->message_bytes, function);
}

void Check(int32_t status, const ErrorBuffer& buffer, const std::string& name, const char* doing) {
  if (status == OW_OK) return;
  const std::string reason = buffer.text[0] ? std::string(": ") + buffer.text : std::string();
  Throw(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kKernel, name, ": ",
        doing, " failed with status ", status, reason);
}

}  // namespace

Device::Device(const ow_device* table, int32_t id, std::shared_ptr<void> keep_alive,
               std::string origin)
    : table_(table),
      id_(id),
      name_(table->name),
      origin_(std::move(origin)),
      keep_alive_(std::move(keep_alive)) {
  FreeRetired();
  if (id > 0) name_ += ":" + std::to_string(id);
  ErrorBuffer buffer;
  const ow_error* error = &buffer.error;
  int32_t n = 0;
  Check(Call(error, [&] { return table_->count(table_, &n, error); }), buffer, name_,
        "counting the devices");
  if (n < 0 || n > kMaxDevices) {
    Throw(ErrorKind::kPlugin, name_, Origin(), ": the number of devices must be in 0 to ",
          kMaxDevices, ", got ", n);
  }
  if (id < 0 || id >= n) {
    Throw(ErrorKind::kKernel, name_, ": the number of a device must be in [0, ", n, "), got ", id,
          n == 0 ? "; there is none on this machine" : "; choose an existing device");
  }
  Check(Call(error, [&] { return table_->open(table_, id, &state_, error); }), buffer, name_,
        "opening the device");
  if (table_->stream_create == nullptr) return;
  const int32_t status =
      Call(error, [&] { return table_->stream_create(state_, &stream_, error); });
  if (status == OW_OK) return;
  Close();
  Check(status, buffer, name_, "making the device's stream");
}

Device::~Device() {
  if (stream_ != nullptr) {
    FreeAtBorder("a device's stream_destroy ", [this] { table_->stream_destroy(state_, stream_); });
  }
  Close();
}

void Device::Close() noexcept {
  FreeAtBorder("a device's close ", [this] { table_->close(state_); });
}

std::string Device::Origin() const { return origin_.empty() ? "" : " of " + origin_; }

void* Device::Allocate(uint64_t bytes, const std::string& what) {
  if (bytes == 0) return nullptr;
  FreeRetired();
  ErrorBuffer buffer;
  void* handle = nullptr;
  const int32_t status =
      Call(&buffer.error, [&] { return table_->allocate(state_, bytes, &handle, &buffer.error); });
  if (status == OW_OK && handle != nullptr) {
    const auto address = reinterpret_cast<uintptr_t>(handle);
    // A device written in Python does not declare an alignment.
    const bool promised = addressable() && !needs_gil();
    if (!promised || address % table_->alignment == 0) return handle;
    Free(handle);
    Throw(ErrorKind::kPlugin, name_, Origin(), ": memory must be aligned to ", table_->alignment,
          " bytes, as the device declares, got the address ", address);
  }
  const std::string reason = buffer.text[0] ? std::string(" (") + buffer.text + ")" : "";
  const bool failed = status != OW_OK && status != OW_OUT_OF_MEMORY;
  Throw(failed ? ErrorKind::kKernel : ErrorKind::kOutOfMemory, what, ": device ", name_,
        " could not allocate memory, got a request for ", bytes, " bytes", reason,
        failed ? "" : "; make the batch smaller or free tensors");
}

void Device::Free(void* handle) noexcept {
  if (handle == nullptr) return;
  FreeAtBorder("a device's free ", [&] { table_->free(state_, handle); });
}

void Device::CopyFromHost(void* destination, const void* source, uint64_t bytes) {
  FreeRetired();
  ErrorBuffer buffer;
  Check(Copy(stream_, destination, is_host(), source, true, bytes, &buffer.error), buffer, name_,
        "a copy from the host");
}

void Device::CopyToHost(void* destination, const void* source, uint64_t bytes) {
  FreeRetired();
  ErrorBuffer buffer;
  Check(Copy(stream_, destination, true, source, is_host(), bytes, &buffer.error), buffer, name_,
        "a copy to the host");
  if (!is_host()) {
    Check(Synchronize(stream_, &buffer.error), buffer, name_, "waiting for a copy to the host");
  }
}

void Device::CopyWithin(void* destination, const void* source, uint64_t bytes) {
  FreeRetired();
  ErrorBuffer buffer;
  Check(Copy(stream_, destination, is_host(), source, is_host(), bytes, &buffer.error), buffer,
        name_, "a copy");
}

void Device::Synchronize() {
  FreeRetired();
  ErrorBuffer buffer;
  Check(Synchronize(nullptr, &buffer.error), buffer, name_, "waiting for the device");
}

int32_t Device::Copy(void* stream, void* destination, bool destination_is_host, const void* source,
                     bool source_is_host, uint64_t bytes, const ow_error* error) noexcept {
  if (bytes == 0) return OW_OK;
  return Call(error, [&] {
    return table_->copy(state_, stream, destination, destination_is_host ? 1 : 0, source,
                        source_is_host ? 1 : 0, bytes, error);
  });
}

int32_t Device::Synchronize(void* stream, const ow_error* error) noexcept {
  return Call(error, [&] {
    return stream != nullptr ? table_->stream_synchronize(state_, stream, error)
                             : table_->synchronize(state_, error);
  });
}

std::string NameBeside(const Device& device, const Device& other) {
  if (&device == &other || device.name() != other.name() || device.origin().empty()) {
    return device.name();
  }
  return device.name() + " of " + device.origin();
}

Storage::Storage(std::shared_ptr<Device> device, uint64_t bytes, const std::string& what)
    : device_(std::move(device)), handle_(device_->Allocate(bytes, what)), bytes_(bytes) {}

Storage::Storage(std::shared_ptr<Device> device, void* handle, uint64_t bytes,
                 std::shared_ptr<void> owner, bool is_read_only)
    : device_(std::move(device)),
      handle_(handle),
      bytes_(bytes),
      owner_(std::move(owner)),
      is_read_only_(is_read_only) {}

void Storage::Free() noexcept {
  if (OwnsMemory()) device_->Free(handle_);
  handle_ = nullptr;
}

}  // namespace opwright
