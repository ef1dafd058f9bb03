// A device that executes nothing until the host waits for it. Work is enqueued on a tape, and
// addresses of the device are not valid on the host. This exposes missing waits and host accesses.
#ifndef OPWRIGHT_TESTS_TAPE_DEVICE_H_
#define OPWRIGHT_TESTS_TAPE_DEVICE_H_

#include <opwright/abi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Addresses of device n start at kOffset * (n + 1), outside the address space of the host.
constexpr uintptr_t kOffset = uintptr_t{1} << 60;
constexpr int32_t kDevices = 2;
constexpr uint64_t kAlignment = 256;

using Work = std::vector<std::function<void()>>;

struct Opened;

struct Stream {
  Opened* device = nullptr;
  Work tape;
  size_t n_done = 0;
  bool is_capturing = false;
};

// An open device.
struct Opened {
  int32_t number = 0;
  Stream* main = nullptr;
};

// A position on a tape, given by the number of tasks before it.
struct Event {
  Stream* stream = nullptr;
  size_t n_before = 0;
};

struct Counts {
  int64_t streams = 0, allocations = 0, graphs = 0, replays = 0, launches = 0, captured = 0;
  int64_t odd_addresses = 0, largest = 0, foreign_addresses = 0, events = 0, event_waits = 0;
  int64_t copies = 0;  // within a device
};

struct State {
  std::mutex mutex;
  Counts counts;
  size_t n_pending = 0;  // enqueued and not done
  std::string fault;
};

State& TheState() {
  static State state;
  return state;
}

float* HostSide(const void* device_pointer) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(device_pointer) & (kOffset - 1));
}

void* DeviceSide(const Opened& device, void* host_pointer) {
  return static_cast<char*>(host_pointer) + kOffset * static_cast<uintptr_t>(device.number + 1);
}

void Check(const Opened& device, const void* device_pointer) {
  const auto number = reinterpret_cast<uintptr_t>(device_pointer) / kOffset - 1;
  if (number != static_cast<uintptr_t>(device.number)) ++TheState().counts.foreign_addresses;
}

int32_t Fails(const char* where, const ow_error* error) {
  const State& state = TheState();
  if (state.fault == std::string(where) + " throws") throw std::runtime_error("the tape is torn");
  if (state.fault != where) return OW_OK;
  std::snprintf(error->message, error->message_bytes, "the tape is torn in %s", where);
  return OW_ERROR;
}

void Enqueue(Stream* stream, std::function<void()> work) {
  ++TheState().n_pending;
  stream->tape.push_back(std::move(work));
}

void Wait(Stream* stream, size_t n) {
  Work tape;
  tape.swap(stream->tape);
  n = std::min(n, tape.size());
  for (size_t i = 0; i < n; ++i) tape[i]();
  stream->tape.assign(tape.begin() + static_cast<std::ptrdiff_t>(n), tape.end());
  stream->n_done += n;
  TheState().n_pending -= n;
}

void Wait(Stream* stream) { Wait(stream, stream->tape.size()); }

void WaitFor(const Event& place) {
  if (place.n_before <= place.stream->n_done) return;
  Wait(place.stream, place.n_before - place.stream->n_done);
}

int32_t Count(const ow_device*, int32_t* n, const ow_error* error) {
  *n = TheState().fault == "none" ? 0 : TheState().fault == "debt" ? -3 : kDevices;
  return Fails("count", error);
}

int32_t Open(const ow_device*, int32_t number, void** state, const ow_error* error) {
  if (Fails("open", error) != OW_OK) return OW_ERROR;
  auto* opened = new Opened();
  opened->number = number;
  *state = opened;
  return OW_OK;
}

void Close(void* state) { delete static_cast<Opened*>(state); }

int32_t Allocate(void* state, uint64_t bytes, void** handle, const ow_error* error) {
  if (TheState().fault == "endless") {
    std::memset(error->message, 0xff, error->message_bytes);  // neither UTF-8 nor terminated
    return OW_ERROR;
  }
  if (Fails("allocate", error) != OW_OK) return OW_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  ++TheState().counts.allocations;
  TheState().counts.largest = std::max(TheState().counts.largest, static_cast<int64_t>(bytes));
  char* memory = static_cast<char*>(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  std::memset(memory, 0xff, bytes);  // NaN
  *handle = DeviceSide(*static_cast<Opened*>(state), memory);
  if (TheState().fault == "askew") *handle = static_cast<char*>(*handle) + 8;
  return OW_OK;
}

void Free(void* state, void* handle) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  --TheState().counts.allocations;
  if (TheState().fault == "askew") return;
  Check(*static_cast<Opened*>(state), handle);
  Stream* stream = static_cast<Opened*>(state)->main;
  const auto free_it = [handle] { std::free(HostSide(handle)); };
  if (stream != nullptr && !stream->tape.empty()) {
    Enqueue(stream, free_it);
  } else {
    free_it();
  }
}

int32_t CopyNow(void* destination, int32_t destination_is_host, const void* source,
                int32_t source_is_host, uint64_t bytes) {
  std::memmove(destination_is_host != 0 ? destination : HostSide(destination),
               source_is_host != 0 ? source : HostSide(source), bytes);
  return OW_OK;
}

int32_t Copy(void* state, void* stream, void* destination, int32_t destination_is_host,
             const void* source, int32_t source_is_host, uint64_t bytes, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("copy", error) != OW_OK) return OW_ERROR;
  const bool of_host = destination_is_host != 0 || source_is_host != 0;
  if (of_host && Fails("copy of the host", error) != OW_OK) return OW_ERROR;
  if (!of_host) ++TheState().counts.copies;
  auto* tape = static_cast<Stream*>(stream);
  if (tape == nullptr)
    return CopyNow(destination, destination_is_host, source, source_is_host, bytes);
  if (tape->is_capturing && of_host) {
    std::snprintf(error->message, error->message_bytes, "a copy of the host is not captured");
    return OW_ERROR;
  }
  const Opened& device = *static_cast<Opened*>(state);
  if (destination_is_host == 0) Check(device, destination);
  if (source_is_host == 0) Check(device, source);
  void* to = destination_is_host != 0 ? destination : HostSide(destination);
  if (source_is_host != 0) {  // the caller may change it after the return
    const auto* from = static_cast<const char*>(source);
    Enqueue(tape, [to, kept = std::vector<char>(from, from + bytes)] {
      std::memcpy(to, kept.data(), kept.size());
    });
  } else {
    Enqueue(tape, [to, from = HostSide(source), bytes] { std::memmove(to, from, bytes); });
  }
  return OW_OK;
}

int32_t StreamSynchronize(void*, void* stream, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("synchronize", error) != OW_OK) return OW_ERROR;
  Wait(static_cast<Stream*>(stream));
  return OW_OK;
}

int32_t Synchronize(void* state, const ow_error* error) {
  Stream* stream = static_cast<Opened*>(state)->main;
  return stream == nullptr ? OW_OK : StreamSynchronize(state, stream, error);
}

int32_t StreamCreate(void* state, void** stream, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("stream_create", error) != OW_OK) return OW_ERROR;
  auto* made = new Stream();
  made->device = static_cast<Opened*>(state);
  if (made->device->main == nullptr) made->device->main = made;
  ++TheState().counts.streams;
  *stream = made;
  return OW_OK;
}

void StreamDestroy(void* state, void* stream) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  Wait(static_cast<Stream*>(stream));
  if (static_cast<Opened*>(state)->main == stream) static_cast<Opened*>(state)->main = nullptr;
  --TheState().counts.streams;
  delete static_cast<Stream*>(stream);
}

int32_t EventCreate(void*, void** event, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("event_create", error) != OW_OK) return OW_ERROR;
  ++TheState().counts.events;
  *event = new Event();
  return OW_OK;
}

void EventDestroy(void*, void* event) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  --TheState().counts.events;
  delete static_cast<Event*>(event);
}

int32_t EventRecord(void*, void* event, void* stream, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("event_record", error) != OW_OK) return OW_ERROR;
  auto* tape = static_cast<Stream*>(stream);
  *static_cast<Event*>(event) = {tape, tape->n_done + tape->tape.size()};
  return OW_OK;
}

int32_t EventSynchronize(void*, void* event, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("event_synchronize", error) != OW_OK) return OW_ERROR;
  ++TheState().counts.event_waits;
  WaitFor(*static_cast<Event*>(event));
  return OW_OK;
}

// Waiting for an event executes the work before the event immediately.
int32_t EventWait(void*, void* event, void*, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("event_wait", error) != OW_OK) return OW_ERROR;
  WaitFor(*static_cast<Event*>(event));
  return OW_OK;
}

int32_t BeginCapture(void*, void* stream, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("begin_capture", error) != OW_OK) return OW_ERROR;
  static_cast<Stream*>(stream)->is_capturing = true;
  return OW_OK;
}

int32_t EndCapture(void*, void* stream, void** graph, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  auto* tape = static_cast<Stream*>(stream);
  tape->is_capturing = false;
  Work recorded;
  recorded.swap(tape->tape);
  TheState().n_pending -= recorded.size();
  if (Fails("end_capture", error) != OW_OK) return OW_ERROR;
  ++TheState().counts.graphs;
  *graph = new Work(std::move(recorded));
  return OW_OK;
}

int32_t Replay(void*, void* stream, void* graph, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("replay", error) != OW_OK) return OW_ERROR;
  ++TheState().counts.replays;
  for (const auto& work : *static_cast<Work*>(graph)) {
    Enqueue(static_cast<Stream*>(stream), work);
  }
  return OW_OK;
}

void GraphDestroy(void*, void* graph) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  --TheState().counts.graphs;
  delete static_cast<Work*>(graph);
}

ow_device MakeDevice() {
  ow_device device = {};
  device.size = sizeof(device);
  device.name = "tape";
  device.dlpack_code = kDLExtDev;
  device.flags = OW_DEVICE_ADDRESSABLE;
  device.alignment = kAlignment;
  device.count = Count;
  device.open = Open;
  device.close = Close;
  device.allocate = Allocate;
  device.free = Free;
  device.copy = Copy;
  device.synchronize = Synchronize;
  device.stream_create = StreamCreate;
  device.stream_destroy = StreamDestroy;
  device.stream_synchronize = StreamSynchronize;
  device.event_create = EventCreate;
  device.event_destroy = EventDestroy;
  device.event_record = EventRecord;
  device.event_wait = EventWait;
  device.event_synchronize = EventSynchronize;
  device.begin_capture = BeginCapture;
  device.end_capture = EndCapture;
  device.replay = Replay;
  device.graph_destroy = GraphDestroy;
  return device;
}

}  // namespace

#endif  // OPWRIGHT_TESTS_TAPE_DEVICE_H_
