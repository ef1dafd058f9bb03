// The interface to the host: the functions of ow_device, which do not throw exceptions.
#include <memory>
#include <string>

#include "device/device.h"

namespace opwright_cuda {

namespace {

using opwright::detail::AtBorder;

template <typename Function>
int32_t Guarded(const ow_error* error, const Function& function) noexcept {
  return AtBorder(error->message, error->message_bytes, function);
}

Device& Of(void* state) { return *static_cast<Device*>(state); }
CUstream Stream(void* stream) { return static_cast<CUstream>(stream); }
CUevent Event(void* event) { return static_cast<CUevent>(event); }

// Calls a driver function in the device context.
template <typename Function>
int32_t Call(void* state, const ow_error* error, const char* what, const Function& function) {
  return Guarded(error, [&] {
    const Device& device = Of(state);
    const Current current(device);
    return Check(device.driver(), function(device.driver()), what);
  });
}

int32_t Count(const ow_device*, int32_t* n, const ow_error* error) {
  return Guarded(error, [&]() -> Status {
    OPWRIGHT_RETURN_IF_ERROR(CountDevices(n));
    return CheckAnyDevice(*n);
  });
}

int32_t Open(const ow_device*, int32_t id, void** state, const ow_error* error) {
  return Guarded(error, [&]() -> Status {
    std::unique_ptr<Device> device;
    OPWRIGHT_RETURN_IF_ERROR(Device::Open(id, &device));
    *state = device.release();
    return Status::Ok();
  });
}

void Close(void* state) { delete static_cast<Device*>(state); }

int32_t Allocate(void* state, uint64_t bytes, void** handle, const ow_error* error) {
  return Guarded(error, [&] { return Of(state).Allocate(bytes, handle); });
}

void Free(void* state, void* handle) { Of(state).Free(handle); }

int32_t AllocateHost(void* state, uint64_t bytes, void** pointer, const ow_error* error) {
  return Call(state, error, "pinned host memory",
              [&](const Driver& api) { return api.MemHostAlloc(pointer, bytes, 0); });
}

void FreeHost(void* state, void* pointer) {
  const Current current(Of(state));
  Of(state).driver().MemFreeHost(pointer);
}

int32_t MemoryInfo(void* state, uint64_t* free_bytes, uint64_t* total_bytes,
                   const ow_error* error) {
  size_t free_size = 0;
  size_t total_size = 0;
  const int32_t status = Call(state, error, "asking for free memory", [&](const Driver& api) {
    return api.MemGetInfo(&free_size, &total_size);
  });
  *free_bytes = free_size;
  *total_bytes = total_size;
  return status;
}

int32_t Copy(void* state, void* stream, void* destination, int32_t destination_is_host,
             const void* source, int32_t source_is_host, uint64_t bytes, const ow_error* error) {
  return Guarded(error, [&] {
    return Of(state).Copy(Stream(stream), destination, destination_is_host != 0, source,
                          source_is_host != 0, bytes);
  });
}

int32_t StreamSynchronize(void* state, void* stream, const ow_error* error) {
  return Guarded(error, [&] { return Of(state).Wait(Stream(stream)); });
}

int32_t Synchronize(void* state, const ow_error* error) {
  return StreamSynchronize(state, nullptr, error);
}

int32_t StreamCreate(void* state, void** stream, const ow_error* error) {
  return Guarded(error, [&]() -> Status {
    CUstream made = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(Of(state).MakeStream(&made));
    *stream = made;
    return Status::Ok();
  });
}

void StreamDestroy(void* state, void* stream) {
  const Current current(Of(state));
  Of(state).driver().StreamDestroy(Stream(stream));
}

int32_t EventCreate(void* state, void** event, const ow_error* error) {
  constexpr unsigned kDisableTiming = 2;
  CUevent made = nullptr;
  const int32_t status = Call(state, error, "making an event", [&](const Driver& api) {
    return api.EventCreate(&made, kDisableTiming);
  });
  *event = made;
  return status;
}

void EventDestroy(void* state, void* event) {
  const Current current(Of(state));
  Of(state).driver().EventDestroy(Event(event));
}

int32_t EventRecord(void* state, void* event, void* stream, const ow_error* error) {
  return Call(state, error, "recording an event",
              [&](const Driver& api) { return api.EventRecord(Event(event), Stream(stream)); });
}

int32_t EventWait(void* state, void* event, void* stream, const ow_error* error) {
  return Call(state, error, "waiting for an event", [&](const Driver& api) {
    return api.StreamWaitEvent(Stream(stream), Event(event), 0);
  });
}

int32_t EventSynchronize(void* state, void* event, const ow_error* error) {
  return Call(state, error, "waiting for an event",
              [&](const Driver& api) { return api.EventSynchronize(Event(event)); });
}

int32_t BeginCapture(void* state, void* stream, const ow_error* error) {
  constexpr int kThreadLocal = 1;  // uncapturable calls fail, but only in this thread
  return Call(state, error, "beginning a graph", [&](const Driver& api) {
    return api.StreamBeginCapture(Stream(stream), kThreadLocal);
  });
}

int32_t EndCapture(void* state, void* stream, void** graph, const ow_error* error) {
  CUgraphExec made = nullptr;
  const int32_t status = Call(state, error, "making a graph", [&](const Driver& api) {
    CUgraph recorded = nullptr;
    CUresult result = api.StreamEndCapture(Stream(stream), &recorded);
    if (result == kSuccess) result = api.GraphInstantiate(&made, recorded, 0);
    if (recorded != nullptr) api.GraphDestroy(recorded);
    return result;
  });
  *graph = made;
  return status;
}

int32_t Replay(void* state, void* stream, void* graph, const ow_error* error) {
  return Guarded(error, [&]() -> Status {
    Device& device = Of(state);
    OPWRIGHT_RETURN_IF_ERROR(device.CheckGraphs());
    const Current current(device);
    return Check(device.driver(),
                 device.driver().GraphLaunch(static_cast<CUgraphExec>(graph), Stream(stream)),
                 "the launch of a graph");
  });
}

void GraphDestroy(void* state, void* graph) {
  const Current current(Of(state));
  Of(state).driver().GraphExecDestroy(static_cast<CUgraphExec>(graph));
}

ow_device MakeTable() {
  constexpr int32_t kDlpackCuda = 2;
  ow_device table{};
  table.size = sizeof(table);
  table.name = "cuda";
  table.dlpack_code = kDlpackCuda;
  table.flags = OW_DEVICE_ADDRESSABLE;
  if (IsSet("OPWRIGHT_CUDA_DEBUG_MEMORY")) table.flags |= OW_DEVICE_UNSHARED_MEMORY;
  table.alignment = 256;
  table.count = Count;
  table.open = Open;
  table.close = Close;
  table.allocate = Allocate;
  table.free = Free;
  table.allocate_host = AllocateHost;
  table.free_host = FreeHost;
  table.memory_info = MemoryInfo;
  table.copy = Copy;
  table.synchronize = Synchronize;
  table.stream_create = StreamCreate;
  table.stream_destroy = StreamDestroy;
  table.stream_synchronize = StreamSynchronize;
  table.event_create = EventCreate;
  table.event_destroy = EventDestroy;
  table.event_record = EventRecord;
  table.event_wait = EventWait;
  table.event_synchronize = EventSynchronize;
  table.begin_capture = BeginCapture;
  table.end_capture = EndCapture;
  table.replay = Replay;
  table.graph_destroy = GraphDestroy;
  return table;
}

}  // namespace

const ow_device& DeviceTable() {
  static const ow_device table = MakeTable();
  return table;
}

}  // namespace opwright_cuda
