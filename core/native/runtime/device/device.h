// Devices: a C++ interface to the table `ow_device`, and reference-counted memory.
#ifndef OPWRIGHT_RUNTIME_DEVICE_H_
#define OPWRIGHT_RUNTIME_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "opwright/abi.h"
#include "runtime/retired.h"

namespace opwright {

class Device : public Retirable {
 public:
  // Opens device `id` of a table. `keep_alive` (a library, a Python object) is held as long as the
  // device. `origin` is the package name, for messages with two devices of the same name. Throws
  // kKernel with the device's message.
  Device(const ow_device* table, int32_t id, std::shared_ptr<void> keep_alive,
         std::string origin = "");
  ~Device() override;
  // Whether closing the device calls its plugin.
  bool needs_plugin() const { return !is_host(); }

  const std::string& name() const { return name_; }
  const std::string& origin() const { return origin_; }
  const ow_device* table() const { return table_; }
  void* state() const { return state_; }
  DLDevice dl_device() const { return {static_cast<DLDeviceType>(table_->dlpack_code), id_}; }
  bool addressable() const { return (table_->flags & OW_DEVICE_ADDRESSABLE) != 0; }
  // Whether values of a plan may share memory; false for memory checkers.
  bool shares_memory() const { return (table_->flags & OW_DEVICE_UNSHARED_MEMORY) == 0; }
  // Whether a plan has a single arena on this device; otherwise it has separate buffers.
  bool has_arena() const { return addressable() && shares_memory(); }
  // The alignment of every value in an arena, in bytes.
  uint64_t alignment() const { return std::max<uint64_t>(table_->alignment, 64); }
  bool is_host() const { return (table_->flags & OW_DEVICE_HOST_MEMORY) != 0; }
  bool needs_gil() const { return (table_->flags & OW_DEVICE_NEEDS_GIL) != 0; }
  bool can_capture() const { return table_->begin_capture != nullptr; }
  // The stream that orders all plans and copies; NULL on devices without streams.
  void* stream() const { return stream_; }

  // Data of the Python binding for its kernels; it is set before the first kernel is bound.
  void set_arrays(std::shared_ptr<void> arrays) { arrays_ = std::move(arrays); }
  void* arrays() const { return arrays_.get(); }

  // Throws kOutOfMemory, with `what` as the purpose of the memory, or kPlugin for a misaligned
  // address.
  void* Allocate(uint64_t bytes, const std::string& what);
  void Free(void* handle) noexcept;
  // The following functions throw kKernel with the device's message.
  void CopyFromHost(void* destination, const void* source, uint64_t bytes);
  void CopyToHost(void* destination, const void* source, uint64_t bytes);
  void CopyWithin(void* destination, const void* source, uint64_t bytes);
  void Synchronize();

  // Like the functions of the table, these functions, for steps of a plan, return a status and a
  // message and never throw.
  int32_t Copy(void* stream, void* destination, bool destination_is_host, const void* source,
               bool source_is_host, uint64_t bytes, const ow_error* error) noexcept;
  int32_t Synchronize(void* stream, const ow_error* error) noexcept;

 private:
  void Close() noexcept;
  std::string Origin() const;  // " of opwright-acme 1.0 (…)", for errors of the plugin

  const ow_device* table_;
  int32_t id_;
  void* state_ = nullptr;
  void* stream_ = nullptr;
  std::string name_;
  std::string origin_;
  std::shared_ptr<void> keep_alive_;
  std::shared_ptr<void> arrays_;
};

// Returns the name of a device for messages that mention both devices; includes its origin if both
// have the same name.
std::string NameBeside(const Device& device, const Device& other);

// Returns the host; its memory is aligned to 64 bytes, for vector loads and complete cache lines.
const std::shared_ptr<Device>& HostDevice();

// One allocation, freed with its last reference, or foreign memory together with its owner.
class Storage : public Retirable {
 public:
  Storage(std::shared_ptr<Device> device, uint64_t bytes, const std::string& what);
  Storage(std::shared_ptr<Device> device, void* handle, uint64_t bytes, std::shared_ptr<void> owner,
          bool is_read_only = false);
  ~Storage() override { Free(); }
  bool needs_plugin() const { return OwnsMemory() && !device_->is_host(); }
  // Frees the memory early, at points where the device is called anyway.
  void Free() noexcept;

  void* handle() const { return handle_; }  // NULL for 0 bytes
  uint64_t bytes() const { return bytes_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  // Whether the memory is foreign; its owner must then wait until enqueued work no longer reads it.
  bool is_foreign() const { return owner_ != nullptr; }
  bool is_read_only() const { return is_read_only_; }

 private:
  bool OwnsMemory() const { return handle_ != nullptr && !owner_; }

  std::shared_ptr<Device> device_;
  void* handle_ = nullptr;
  uint64_t bytes_;
  std::shared_ptr<void> owner_;
  bool is_read_only_ = false;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_DEVICE_H_
