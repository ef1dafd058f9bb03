// Creates the functions of an ow_device from a device class.
//
//   class Shelf : public opwright::Device {
//    public:
//     explicit Shelf(int32_t number);  // opens the device of this number; it may throw
//     Status Allocate(uint64_t bytes, void** handle) override;
//     void Free(void* handle) override;
//     Status CopyFromHost(void* destination, const void* source, uint64_t bytes) override;
//     Status CopyToHost(void* destination, const void* source, uint64_t bytes) override;
//     Status CopyWithin(void* destination, const void* source, uint64_t bytes) override;
//     Status Synchronize() override;
//
//     // Everything below is optional:
//     static void Configure(opwright::DeviceOptions&);  // alignment, addressable ...
//     static Status Count(int32_t* n);                  // the number of devices; by default 1
//     Status AllocateHost(uint64_t bytes, void** pointer) override;  // and FreeHost
//     Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override;
//   };
//   OPWRIGHT_REGISTER_DEVICE(shelf, "shelf", Shelf);
//
// A device that enqueues its work derives from StreamDevice, and a device that also records it as
// graphs from GraphDevice; the compiler requires their additional functions. The functions are
// public and are not overloaded. Several threads may call them at once.
//
// A function fails by its Status or by an exception: std::bad_alloc is reported as out of memory,
// any other exception as an error with its message. Failures in Free and in destructors are logged;
// the destructor of a stream, event or graph that throws must be noexcept(false).
#ifndef OPWRIGHT_SDK_DEVICE_HPP_
#define OPWRIGHT_SDK_DEVICE_HPP_

#include <cstdint>
#include <memory>

#include "opwright/abi.h"
#include "opwright/sdk/status.hpp"

namespace opwright {

// Properties of a device.
struct DeviceOptions {
  int32_t dlpack_code = kDLExtDev;  // DLPack's DLDeviceType
  // The alignment of every allocation in bytes, a power of two, at least 64 on an addressable
  // device.
  uint64_t alignment = 64;
  bool addressable = false;      // handles may be offset, so a plan needs one allocation
  bool host_memory = false;      // the host reads and writes its memory directly
  bool unshared_memory = false;  // for memory checkers: each value gets a separate allocation
};

// The functions of every device.
class DeviceBase {
 public:
  DeviceBase() = default;
  DeviceBase(const DeviceBase&) = delete;
  DeviceBase& operator=(const DeviceBase&) = delete;
  // Destructors of derived classes may throw, too, unless they are noexcept.
  virtual ~DeviceBase() noexcept(false) = default;

  static void Configure(DeviceOptions& /*options*/) {}
  static Status Count(int32_t* n) {
    *n = 1;
    return Status::Ok();
  }

  // Allocates memory and returns its handle, which is never NULL. Fails with Status::OutOfMemory.
  virtual Status Allocate(uint64_t bytes, void** handle) = 0;
  // Work that is enqueued may still use the memory.
  virtual void Free(void* handle) = 0;
  // Waits for all work of the device.
  virtual Status Synchronize() = 0;

  // Pinned host memory; override both or neither.
  virtual Status AllocateHost(uint64_t /*bytes*/, void** /*pointer*/) {
    return Status(OW_UNSUPPORTED, "the device has no host memory of its own");
  }
  virtual void FreeHost(void* /*pointer*/) {}
  // Free and total bytes.
  virtual Status MemoryInfo(uint64_t* /*free_bytes*/, uint64_t* /*total_bytes*/) {
    return Status(OW_UNSUPPORTED, "the device does not report its memory");
  }
};

// A device whose functions, and whose kernels, return when their work is done.
class Device : public DeviceBase {
 public:
  virtual Status CopyFromHost(void* destination, const void* source, uint64_t bytes) = 0;
  virtual Status CopyToHost(void* destination, const void* source, uint64_t bytes) = 0;
  virtual Status CopyWithin(void* destination, const void* source, uint64_t bytes) = 0;
};

// A device that enqueues work on streams. opwright creates one stream for each opened device, and
// enqueues all work on the device there in the order of the program; a kernel gets it as
// ctx.stream<Stream>(). Streams and events may be any classes; their destructors release them.
template <typename StreamT, typename EventT>
class StreamDevice : public DeviceBase {
 public:
  using Stream = StreamT;
  using Event = EventT;

  // Enqueue a copy. The source on the host may be reused as soon as CopyFromHost returns.
  virtual Status CopyFromHost(Stream& stream, void* destination, const void* source,
                              uint64_t bytes) = 0;
  virtual Status CopyToHost(Stream& stream, void* destination, const void* source,
                            uint64_t bytes) = 0;
  virtual Status CopyWithin(Stream& stream, void* destination, const void* source,
                            uint64_t bytes) = 0;

  virtual Status CreateStream(std::unique_ptr<Stream>* stream) = 0;
  // Waits for all enqueued work. It should report failures of this work.
  virtual Status SynchronizeStream(Stream& stream) = 0;

  virtual Status CreateEvent(std::unique_ptr<Event>* event) = 0;
  // Records the event after all work that is already enqueued.
  virtual Status RecordEvent(Event& event, Stream& stream) = 0;
  // Makes work that is enqueued later wait for the event; the host does not wait.
  virtual Status WaitEvent(Event& event, Stream& stream) = 0;
  // Waits for the work before the event.
  virtual Status SynchronizeEvent(Event& event) = 0;
};

// A device that can record enqueued work as a graph, and enqueue the graph repeatedly.
template <typename StreamT, typename EventT, typename GraphT>
class GraphDevice : public StreamDevice<StreamT, EventT> {
 public:
  using Stream = StreamT;
  using Graph = GraphT;

  // From here on work that is enqueued on the stream is not executed but recorded in a graph. Only
  // capturable kernels and copies within the device are enqueued while a stream is captured.
  virtual Status BeginCapture(Stream& stream) = 0;
  // If it fails, the capture ends without a graph.
  virtual Status EndCapture(Stream& stream, std::unique_ptr<Graph>* graph) = 0;
  // Enqueues the graph on any stream. It may be destroyed before its work is done.
  virtual Status Replay(Stream& stream, Graph& graph) = 0;
};

}  // namespace opwright

#endif  // OPWRIGHT_SDK_DEVICE_HPP_
