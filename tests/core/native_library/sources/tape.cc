// A device that does nothing until it is waited for: what is enqueued lies on a tape, and its
// addresses are not the host's. So whatever forgets to wait, or looks at memory from the host,
// shows.
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

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Far outside of what the host can address.
constexpr uintptr_t kOffset = uintptr_t{1} << 60;
constexpr uint64_t kAlignment = 256;

using Work = std::vector<std::function<void()>>;

struct Stream {
  Work tape;
  bool is_capturing = false;
};

struct Counts {
  int64_t streams = 0, allocations = 0, graphs = 0, replays = 0, launches = 0, captured = 0;
  int64_t odd_addresses = 0, largest = 0;
};

// A function so that a test can set and read by one name each.
struct State {
  std::mutex mutex;
  Counts counts;
  std::string fault;
  Stream* main = nullptr;
};

State& TheState() {
  static State state;
  return state;
}

float* HostSide(const void* device_pointer) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(device_pointer) - kOffset);
}

int32_t Fails(const char* where, const ow_error* error) {
  const State& state = TheState();
  if (state.fault == std::string(where) + " throws") throw std::runtime_error("the tape is torn");
  if (state.fault != where) return OW_OK;
  std::snprintf(error->message, error->message_bytes, "the tape is torn in %s", where);
  return OW_ERROR;
}

void Enqueue(Stream* stream, std::function<void()> work) {
  stream->tape.push_back(std::move(work));
}

void Wait(Stream* stream) {
  Work tape;
  tape.swap(stream->tape);
  for (const auto& work : tape) work();
}

int32_t Count(const ow_device*, int32_t* n, const ow_error* error) {
  *n = TheState().fault == "none" ? 0 : 1;
  return Fails("count", error);
}

int32_t Open(const ow_device*, int32_t, void** state, const ow_error* error) {
  *state = &TheState();
  return Fails("open", error);
}

void Close(void*) {}

int32_t Allocate(void*, uint64_t bytes, void** handle, const ow_error* error) {
  if (Fails("allocate", error) != OW_OK) return OW_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  ++TheState().counts.allocations;
  TheState().counts.largest = std::max(TheState().counts.largest, static_cast<int64_t>(bytes));
  char* memory = static_cast<char*>(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  std::memset(memory, 0xff, bytes);  // NaN
  *handle = memory + kOffset;
  return OW_OK;
}

void Free(void*, void* handle) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  --TheState().counts.allocations;
  Stream* stream = TheState().main;
  const auto free_it = [handle] { std::free(HostSide(handle)); };
  if (stream != nullptr && !stream->tape.empty()) {
    Enqueue(stream, free_it);
  } else {
    free_it();
  }
}

int32_t Copy(void*, void* stream, void* destination, int32_t destination_is_host,
             const void* source, int32_t source_is_host, uint64_t bytes, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("copy", error) != OW_OK) return OW_ERROR;
  auto* tape = static_cast<Stream*>(stream);
  if (tape->is_capturing && (destination_is_host != 0 || source_is_host != 0)) {
    std::snprintf(error->message, error->message_bytes, "a copy of the host is not captured");
    return OW_ERROR;
  }
  void* to = destination_is_host != 0 ? destination : HostSide(destination);
  if (source_is_host != 0) {  // it may change when we return
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
  return StreamSynchronize(state, TheState().main, error);
}

int32_t StreamCreate(void*, void** stream, const ow_error* error) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (Fails("stream_create", error) != OW_OK) return OW_ERROR;
  auto* made = new Stream();
  if (TheState().main == nullptr) TheState().main = made;
  ++TheState().counts.streams;
  *stream = made;
  return OW_OK;
}

void StreamDestroy(void*, void* stream) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  Wait(static_cast<Stream*>(stream));
  if (TheState().main == stream) TheState().main = nullptr;
  --TheState().counts.streams;
  delete static_cast<Stream*>(stream);
}

int32_t EventCreate(void*, void**, const ow_error*) { return OW_UNSUPPORTED; }
void EventDestroy(void*, void*) {}
int32_t EventOf(void*, void*, void*, const ow_error*) { return OW_UNSUPPORTED; }
int32_t EventSynchronize(void*, void*, const ow_error*) { return OW_UNSUPPORTED; }

int32_t BeginCapture(void*, void* stream, const ow_error* error) {
  if (Fails("begin_capture", error) != OW_OK) return OW_ERROR;
  static_cast<Stream*>(stream)->is_capturing = true;
  return OW_OK;
}

int32_t EndCapture(void*, void* stream, void** graph, const ow_error* error) {
  auto* tape = static_cast<Stream*>(stream);
  tape->is_capturing = false;
  Work recorded;
  recorded.swap(tape->tape);
  if (Fails("end_capture", error) != OW_OK) return OW_ERROR;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
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

// x, y -> out, or x -> out: element by element, all of one shape.
template <typename Function>
int32_t Launch(const ow_call* call, Function function) {
  auto* stream = static_cast<Stream*>(call->stream);
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const std::string& fault = TheState().fault;
  if (fault == "launch" || (fault == "captured launch" && stream->is_capturing)) {
    std::snprintf(call->message, call->message_bytes, "the tape is full");
    return OW_ERROR;
  }
  ++(stream->is_capturing ? TheState().counts.captured : TheState().counts.launches);
  const uint32_t last = call->slot_begin[call->n_slots] - 1;
  int64_t n = 1;
  for (int32_t i = 0; i < call->args[last]->ndim; ++i) n *= call->args[last]->shape[i];
  for (uint32_t i = 0; i <= last; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(call->args[i]->data);
    TheState().counts.odd_addresses += address % kAlignment != 0 ? 1 : 0;
  }
  const float* x = HostSide(call->args[0]->data);
  const float* y = HostSide(call->args[last - 1]->data);
  float* out = HostSide(call->args[last]->data);
  Enqueue(stream, [=] {
    for (int64_t i = 0; i < n; ++i) out[i] = function(x[i], y[i]);
  });
  return OW_OK;
}

int32_t Add(const ow_call* call) {
  return Launch(call, [](float x, float y) { return x + y; });
}
int32_t Multiply(const ow_call* call) {
  return Launch(call, [](float x, float y) { return x * y; });
}
int32_t Negative(const ow_call* call) {
  return Launch(call, [](float x, float) { return -x; });
}

const DLDataType kFloat32 = {kDLFloat, 32, 1};
const ow_reuse kInPlace[] = {{"out", "x"}};

ow_kernel MakeKernel(const char* type, ow_run_fn run, uint32_t flags) {
  ow_kernel kernel = {};
  kernel.size = sizeof(kernel);
  kernel.op_type = type;
  kernel.device = "tape";
  kernel.dtypes = &kFloat32;
  kernel.n_dtypes = 1;
  kernel.priority = 50;
  kernel.flags = flags;
  kernel.may_reuse = kInPlace;
  kernel.n_may_reuse = 1;
  kernel.run = run;
  return kernel;
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
  device.event_record = EventOf;
  device.event_wait = EventOf;
  device.event_synchronize = EventSynchronize;
  device.begin_capture = BeginCapture;
  device.end_capture = EndCapture;
  device.replay = Replay;
  device.graph_destroy = GraphDestroy;
  return device;
}

}  // namespace

// What a test counts: "replays", "graphs", ...
EXPORT int64_t tape_count(const char* what) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const Counts& counts = TheState().counts;
  const std::string name = what;
  if (name == "streams") return counts.streams;
  if (name == "allocations") return counts.allocations;
  if (name == "graphs") return counts.graphs;
  if (name == "replays") return counts.replays;
  if (name == "captured") return counts.captured;
  if (name == "odd addresses") return counts.odd_addresses;
  if (name == "largest") return counts.largest;
  return name == "launches" ? counts.launches : -1;
}

// Which function fails from now on: its name, with " throws" behind it for an exception.
EXPORT void tape_fail(const char* where) { TheState().fault = where; }

#ifndef FAULT
#define FAULT
#endif

EXPORT int32_t opwright_plugin_v1(const ow_host*, const ow_plugin** out) {
  static ow_device device = MakeDevice();
  static ow_kernel kernels[] = {MakeKernel("add", Add, OW_KERNEL_CAPTURABLE),
                                MakeKernel("multiply", Multiply, OW_KERNEL_CAPTURABLE),
                                MakeKernel("negative", Negative, 0)};
  static ow_plugin plugin = {};
  plugin.size = sizeof(plugin);
  plugin.abi_major = OW_ABI_MAJOR;
  plugin.abi_minor = OW_ABI_MINOR;
  plugin.name = "acme";
  plugin.version = "1.0";
  plugin.kernels = kernels;
  plugin.n_kernels = 3;
  plugin.kernel_stride = sizeof(ow_kernel);
  plugin.devices = &device;
  plugin.n_devices = 1;
  plugin.device_stride = sizeof(ow_device);
  FAULT;
  *out = &plugin;
  return OW_OK;
}
