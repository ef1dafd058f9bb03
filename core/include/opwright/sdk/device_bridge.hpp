// The functions of an ow_device, which call a device class and catch all exceptions.
#ifndef OPWRIGHT_SDK_DEVICE_BRIDGE_HPP_
#define OPWRIGHT_SDK_DEVICE_BRIDGE_HPP_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <type_traits>

#include "opwright/abi.h"
#include "opwright/sdk/device.hpp"
#include "opwright/sdk/host.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {
namespace detail {

// Runs a function whose failure the host cannot receive, and logs it instead.
template <typename Function>
void AtQuietBorder(const char* who, const Function& function) noexcept {
  char message[512] = "";
  const int32_t code = AtBorder(message, sizeof(message), [&function]() -> Status {
    function();
    return Status::Ok();
  });
  if (code == OW_OK || loaded_as.host == nullptr) return;
  char text[640] = "";
  std::snprintf(text, sizeof(text), "%s: %s must not fail, got: %s", loaded_as.plugin, who,
                message);
  loaded_as.host->log(OW_LOG_ERROR, text);
}

template <typename Function>
int32_t AtBorder(const ow_error* error, const Function& function) noexcept {
  return AtBorder(error->message, error->message_bytes, function);
}

// The base of a device class, or void if it does not derive from one.
template <typename Stream, typename Event>
StreamDevice<Stream, Event>* StreamBase(const StreamDevice<Stream, Event>*);
void StreamBase(const DeviceBase*);
template <typename Stream, typename Event, typename Graph>
GraphDevice<Stream, Event, Graph>* GraphBase(const GraphDevice<Stream, Event, Graph>*);
void GraphBase(const DeviceBase*);
template <typename D>
using StreamBaseOf = std::remove_pointer_t<decltype(StreamBase(static_cast<D*>(nullptr)))>;
template <typename D>
using GraphBaseOf = std::remove_pointer_t<decltype(GraphBase(static_cast<D*>(nullptr)))>;

// The functions below call D::Function directly, not through the virtual table.
template <typename D>
D& DeviceOf(void* state) {
  return *static_cast<D*>(state);
}

// Passes an object to the host, as an opaque pointer.
template <typename T, typename Make>
Status HandOver(const char* function, void** object, const Make& make) {
  std::unique_ptr<T> made;
  OPWRIGHT_RETURN_IF_ERROR(make(&made));
  OPWRIGHT_ENFORCE(made != nullptr, function, " must set its result, got NULL");
  *object = made.release();
  return Status::Ok();
}

// Streams and events of device D, whose base is StreamDevice<Stream, Event>.
template <typename D>
struct StreamBridge {
  using Stream = typename StreamBaseOf<D>::Stream;
  using Event = typename StreamBaseOf<D>::Event;

  static Stream& On(void* stream) { return *static_cast<Stream*>(stream); }
  static Event& At(void* event) { return *static_cast<Event*>(event); }

  static int32_t CreateStream(void* state, void** stream, const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      return HandOver<Stream>("CreateStream", stream, [state](std::unique_ptr<Stream>* made) {
        return DeviceOf<D>(state).D::CreateStream(made);
      });
    });
  }

  static void DestroyStream(void* /*state*/, void* stream) noexcept {
    AtQuietBorder("the destructor of a stream", [stream] { delete &On(stream); });
  }

  static int32_t SynchronizeStream(void* state, void* stream, const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::SynchronizeStream(On(stream)); });
  }

  static int32_t CreateEvent(void* state, void** event, const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      return HandOver<Event>("CreateEvent", event, [state](std::unique_ptr<Event>* made) {
        return DeviceOf<D>(state).D::CreateEvent(made);
      });
    });
  }

  static void DestroyEvent(void* /*state*/, void* event) noexcept {
    AtQuietBorder("the destructor of an event", [event] { delete &At(event); });
  }

  static int32_t RecordEvent(void* state, void* event, void* stream,
                             const ow_error* error) noexcept {
    return AtBorder(error,
                    [=] { return DeviceOf<D>(state).D::RecordEvent(At(event), On(stream)); });
  }

  static int32_t WaitEvent(void* state, void* event, void* stream, const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::WaitEvent(At(event), On(stream)); });
  }

  static int32_t SynchronizeEvent(void* state, void* event, const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::SynchronizeEvent(At(event)); });
  }

  static void Fill(ow_device* table) {
    table->stream_create = &CreateStream;
    table->stream_destroy = &DestroyStream;
    table->stream_synchronize = &SynchronizeStream;
    table->event_create = &CreateEvent;
    table->event_destroy = &DestroyEvent;
    table->event_record = &RecordEvent;
    table->event_wait = &WaitEvent;
    table->event_synchronize = &SynchronizeEvent;
  }
};

// Graphs of device D, whose base is GraphDevice<Stream, Event, Graph>.
template <typename D>
struct GraphBridge {
  using Stream = typename StreamBaseOf<D>::Stream;
  using Graph = typename GraphBaseOf<D>::Graph;

  static Stream& On(void* stream) { return *static_cast<Stream*>(stream); }

  static int32_t BeginCapture(void* state, void* stream, const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::BeginCapture(On(stream)); });
  }

  static int32_t EndCapture(void* state, void* stream, void** graph,
                            const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      return HandOver<Graph>("EndCapture", graph, [=](std::unique_ptr<Graph>* made) {
        return DeviceOf<D>(state).D::EndCapture(On(stream), made);
      });
    });
  }

  static int32_t Replay(void* state, void* stream, void* graph, const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      return DeviceOf<D>(state).D::Replay(On(stream), *static_cast<Graph*>(graph));
    });
  }

  static void DestroyGraph(void* /*state*/, void* graph) noexcept {
    AtQuietBorder("the destructor of a graph", [graph] { delete static_cast<Graph*>(graph); });
  }

  static void Fill(ow_device* table) {
    table->begin_capture = &BeginCapture;
    table->end_capture = &EndCapture;
    table->replay = &Replay;
    table->graph_destroy = &DestroyGraph;
  }
};

// The functions of every device D.
template <typename D>
struct DeviceBridge {
  static_assert(std::is_base_of_v<DeviceBase, D>,
                "a device derives from opwright::Device, StreamDevice or GraphDevice");
  static constexpr bool kHasStreams = !std::is_void_v<StreamBaseOf<D>>;
  static constexpr bool kHasGraphs = !std::is_void_v<GraphBaseOf<D>>;
  // A function that D does not override is still a member of the base.
  static constexpr bool kHasMemoryInfo =
      !std::is_same_v<decltype(&D::MemoryInfo), decltype(&DeviceBase::MemoryInfo)>;
  static constexpr bool kHasAllocateHost =
      !std::is_same_v<decltype(&D::AllocateHost), decltype(&DeviceBase::AllocateHost)>;
  static constexpr bool kHasFreeHost =
      !std::is_same_v<decltype(&D::FreeHost), decltype(&DeviceBase::FreeHost)>;
  static_assert(kHasAllocateHost == kHasFreeHost,
                "AllocateHost and FreeHost are overridden together or not at all");

  static int32_t Count(const ow_device* /*device*/, int32_t* n, const ow_error* error) noexcept {
    return AtBorder(error, [n] { return D::Count(n); });
  }

  static int32_t Open(const ow_device* /*device*/, int32_t number, void** state,
                      const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      *state = new D(number);
      return Status::Ok();
    });
  }

  static void Close(void* state) noexcept {
    AtQuietBorder("the destructor of a device", [state] { delete &DeviceOf<D>(state); });
  }

  static int32_t Allocate(void* state, uint64_t bytes, void** handle,
                          const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::Allocate(bytes, handle); });
  }

  static void Free(void* state, void* handle) noexcept {
    AtQuietBorder("Free of a device", [=] { DeviceOf<D>(state).D::Free(handle); });
  }

  static int32_t AllocateHost(void* state, uint64_t bytes, void** pointer,
                              const ow_error* error) noexcept {
    return AtBorder(error, [=] { return DeviceOf<D>(state).D::AllocateHost(bytes, pointer); });
  }

  static void FreeHost(void* state, void* pointer) noexcept {
    AtQuietBorder("FreeHost of a device", [=] { DeviceOf<D>(state).D::FreeHost(pointer); });
  }

  static int32_t MemoryInfo(void* state, uint64_t* free_bytes, uint64_t* total_bytes,
                            const ow_error* error) noexcept {
    return AtBorder(error,
                    [=] { return DeviceOf<D>(state).D::MemoryInfo(free_bytes, total_bytes); });
  }

  // If the device's memory is host memory, source and destination are both in host memory.
  template <typename... Stream>
  static Status CopyOn(D& device, void* destination, bool to_host, const void* source,
                       bool from_host, uint64_t bytes, Stream&... stream) {
    if (to_host == from_host) return device.D::CopyWithin(stream..., destination, source, bytes);
    if (to_host) return device.D::CopyToHost(stream..., destination, source, bytes);
    return device.D::CopyFromHost(stream..., destination, source, bytes);
  }

  static int32_t Copy(void* state, [[maybe_unused]] void* stream, void* destination,
                      int32_t destination_is_host, const void* source, int32_t source_is_host,
                      uint64_t bytes, const ow_error* error) noexcept {
    return AtBorder(error, [=] {
      D& device = DeviceOf<D>(state);
      const bool to_host = destination_is_host != 0;
      const bool from_host = source_is_host != 0;
      if constexpr (kHasStreams) {
        return CopyOn(device, destination, to_host, source, from_host, bytes,
                      StreamBridge<D>::On(stream));
      } else {
        return CopyOn(device, destination, to_host, source, from_host, bytes);
      }
    });
  }

  static int32_t Synchronize(void* state, const ow_error* error) noexcept {
    return AtBorder(error, [state] { return DeviceOf<D>(state).D::Synchronize(); });
  }

  // Fills in everything except the name. Functions that the device lacks stay NULL.
  static ow_device Table() {
    DeviceOptions options;
    D::Configure(options);
    ow_device table{};
    table.size = sizeof(ow_device);
    table.dlpack_code = options.dlpack_code;
    table.flags = (options.addressable ? OW_DEVICE_ADDRESSABLE : 0u) |
                  (options.host_memory ? OW_DEVICE_HOST_MEMORY : 0u) |
                  (options.unshared_memory ? OW_DEVICE_UNSHARED_MEMORY : 0u);
    table.alignment = options.alignment;
    table.count = &Count;
    table.open = &Open;
    table.close = &Close;
    table.allocate = &Allocate;
    table.free = &Free;
    if constexpr (kHasAllocateHost) {
      table.allocate_host = &AllocateHost;
      table.free_host = &FreeHost;
    }
    if constexpr (kHasMemoryInfo) table.memory_info = &MemoryInfo;
    table.copy = &Copy;
    table.synchronize = &Synchronize;
    if constexpr (kHasStreams) StreamBridge<D>::Fill(&table);
    if constexpr (kHasGraphs) GraphBridge<D>::Fill(&table);
    return table;
  }
};

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_DEVICE_BRIDGE_HPP_
