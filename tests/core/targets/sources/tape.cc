// A plugin with the device of tape_device.h, kernels for it, and functions for tests.
#include "tape_device.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

int64_t Numel(const DLTensor& tensor) {
  int64_t n = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) n *= tensor.shape[i];
  return n;
}

// Enqueues an elementwise function of x, or of x and y; y has the shape of x or one element.
template <typename Function>
int32_t Launch(const ow_call* call, Function function) {
  auto* stream = static_cast<Stream*>(call->stream);
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const std::string& fault = TheState().fault;
  const bool is_capturing = stream != nullptr && stream->is_capturing;
  if (fault == "launch" || (fault == "captured launch" && is_capturing)) {
    std::snprintf(call->message, call->message_bytes, "the tape is full");
    return OW_ERROR;
  }
  ++(is_capturing ? TheState().counts.captured : TheState().counts.launches);
  const uint32_t last = call->slot_begin[call->n_slots] - 1;
  const int64_t n = Numel(*call->args[last]);
  for (uint32_t i = 0; i <= last; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(call->args[i]->data);
    TheState().counts.odd_addresses += address % kAlignment != 0 ? 1 : 0;
    if (stream != nullptr) Check(*stream->device, call->args[i]->data);
  }
  const float* x = HostSide(call->args[0]->data);
  const float* y = HostSide(call->args[last - 1]->data);
  float* out = HostSide(call->args[last]->data);
  const int64_t step = Numel(*call->args[last - 1]) == 1 ? 0 : 1;
  const auto work = [=] {
    for (int64_t i = 0; i < n; ++i) out[i] = function(x[i], y[i * step]);
  };
  if (stream != nullptr) {
    Enqueue(stream, work);
  } else {
    work();
  }
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

}  // namespace

// Returns the counter named `what`, e.g. "replays" or "graphs"; -1 if the name is unknown.
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
  if (name == "foreign addresses") return counts.foreign_addresses;
  if (name == "copies") return counts.copies;
  if (name == "pending") return static_cast<int64_t>(TheState().n_pending);
  if (name == "events") return counts.events;
  if (name == "event waits") return counts.event_waits;
  return name == "launches" ? counts.launches : -1;
}

// Allocates memory of another library for `tape_arrays.py`. This memory is accessed immediately,
// and is invalid once freed, even if a stream still uses it.
EXPORT void* tape_allocate(int32_t number, uint64_t bytes) {
  Opened device;
  device.number = number;
  return DeviceSide(device, std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
}
EXPORT void tape_free(void* pointer, uint64_t bytes) {
  std::memset(HostSide(pointer), 0xff, bytes);  // NaN
  std::free(HostSide(pointer));
}
EXPORT void* tape_host_side(void* pointer) { return HostSide(pointer); }

// Returns the stream of the other library on device 0.
EXPORT void* tape_foreign_stream() {
  static Opened device;
  static Stream stream{&device, {}};
  return &stream;
}

// Enqueues out = max(x, 0) for n floats; called by a Python kernel.
EXPORT void tape_relu(void* stream, const void* x, void* out, int64_t n) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  auto* tape = static_cast<Stream*>(stream);
  ++(tape->is_capturing ? TheState().counts.captured : TheState().counts.launches);
  Check(*tape->device, x);
  Check(*tape->device, out);
  Enqueue(tape, [from = HostSide(x), to = HostSide(out), n] {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] > 0 ? from[i] : 0;
  });
}

// Makes the function named `where` fail from now on, or throw if " throws" follows the name.
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
