// A driver that uses the CPU as its GPU. Together with memory.cc, this file exports the functions
// that native/driver/driver.h of opwright-cuda loads. Stream work is executed only when something
// waits for it, so missing waits are detected.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver.h"

namespace emulator {

namespace {

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidImage = 200;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;
constexpr int kIllegalAddress = 700;
constexpr int kCaptureInvalidated = 901;
constexpr int kCaptureUnjoined = 904;
constexpr int kCaptureIsolation = 905;
constexpr int kCapturedEvent = 907;

struct Event {
  Stream* stream = nullptr;
  std::shared_ptr<float> time;       // time at which it was reached, or negative
  std::shared_ptr<Capture> capture;  // null unless it was recorded in a graph
  size_t place = 0;                  // position in the graph
};

struct State {
  std::recursive_mutex mutex;
  std::set<Stream*> streams;
  std::map<std::string, int64_t> counts;
  std::map<std::string, int64_t> settings;
  std::string last_error;
  int sticky = 0;  // after a failed kernel, all calls fail, as with a real context
  int n_devices = 1;
  float time = 0;
  Stream main;  // the default stream
};

State& The() {
  static auto* state = new State;
  return *state;
}

using Guard = std::lock_guard<std::recursive_mutex>;

int Drain(Stream* stream) {
  State& state = The();
  while (!stream->work.empty() && state.sticky == 0) {
    const Work work = std::move(stream->work.front());
    stream->work.pop_front();
    Outcome outcome = work();
    if (outcome.text.empty()) continue;
    state.last_error = std::move(outcome.text);
    state.sticky = outcome.result;
  }
  return state.sticky;
}

Stream* StreamOf(void* handle) {
  // 0 and CUDA's handles for the legacy and the per-thread default stream all mean the default
  // stream.
  return reinterpret_cast<uintptr_t>(handle) <= 2 ? &The().main : static_cast<Stream*>(handle);
}

}  // namespace

int Enqueue(void* handle, Work work) {
  State& state = The();
  const Guard guard(state.mutex);
  if (state.sticky != 0) return state.sticky;
  Stream* stream = StreamOf(handle);
  if (stream->capture == nullptr) {
    stream->work.push_back(std::move(work));
    return 0;
  }
  Capture& capture = *stream->capture;
  capture.recorded.push_back(std::move(work));
  if (stream != capture.origin) capture.apart[stream] = capture.recorded.size();
  return 0;
}

void Count(const char* what, int64_t change) {
  const Guard guard(The().mutex);
  The().counts[what] += change;
}

void Advance(float milliseconds) {
  const Guard guard(The().mutex);
  The().time += milliseconds;
}

int64_t Setting(const char* what, int64_t otherwise) {
  const Guard guard(The().mutex);
  const auto found = The().settings.find(what);
  return found == The().settings.end() ? otherwise : found->second;
}

}  // namespace emulator

using namespace emulator;

// ---- For tests: counters and injected failures

extern "C" __attribute__((visibility("default"))) int64_t emulator_count(const char* what) {
  const Guard guard(The().mutex);
  return The().counts[what];
}

// "devices", "memory_bytes", "sticky", and settings of the emulated libraries.
extern "C" __attribute__((visibility("default"))) void emulator_set(const char* what,
                                                                    int64_t value) {
  const Guard guard(The().mutex);
  The().settings[what] = value;
  if (std::strcmp(what, "devices") == 0) The().n_devices = static_cast<int>(value);
  if (std::strcmp(what, "sticky") == 0) The().sticky = static_cast<int>(value);
}

// ---- Driver and device

EMULATED cuInit(unsigned) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && visible[0] == '\0') The().n_devices = 0;
  return The().n_devices == 0 ? kNoDevice : 0;
}
EMULATED cuDriverGetVersion(int* version) {
  const char* text = std::getenv("OPWRIGHT_EMULATOR_VERSION");
  *version = text != nullptr ? std::atoi(text) : 13000;
  return 0;
}
EMULATED cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> names = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
      {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
      {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"}};
  const auto found = names.find(result);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? kInvalidValue : 0;
}
EMULATED cuGetErrorString(int result, const char** text) {
  const Guard guard(The().mutex);
  if (result == kLaunchFailed || result == kMisalignedAddress) {
    *text = The().last_error.c_str();
    return 0;
  }
  return cuGetErrorName(result, text);
}
EMULATED cuDeviceGetCount(int* n) {
  *n = The().n_devices;
  return 0;
}
EMULATED cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < The().n_devices ? 0 : kInvalidDevice;
}
EMULATED cuDeviceGetName(char* name, int n, int) {
  std::snprintf(name, static_cast<size_t>(n), "emulated GPU");
  return 0;
}
EMULATED cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {{75, 9}, {76, 0}, {16, 4}, {115, 1}, {97, 232448}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return 0;
}
namespace {
char contexts[8];
std::atomic<int> is_retained[8];
thread_local char* current_context = nullptr;
}  // namespace

int emulator::CurrentDevice() {
  return current_context == nullptr ? -1 : static_cast<int>(current_context - contexts);
}
EMULATED cuDevicePrimaryCtxRetain(void** context, int device) {
  is_retained[device] = 1;
  *context = contexts + device;
  return 0;
}
EMULATED cuDevicePrimaryCtxGetState(int device, unsigned*, int* is_active) {
  *is_active = is_retained[device];
  return 0;
}
EMULATED cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EMULATED cuCtxGetCurrent(void** context) {
  *context = current_context;
  return 0;
}
EMULATED cuCtxSetCurrent(void* context) {
  current_context = static_cast<char*>(context);
  return 0;
}

// ---- Streams, events, graphs

EMULATED cuStreamCreate(void** stream, unsigned) {
  const Guard guard(The().mutex);
  auto* made = new Stream;
  The().streams.insert(made);
  *stream = made;
  Count("streams", 1);
  return 0;
}
EMULATED cuStreamDestroy_v2(void* stream) {
  const Guard guard(The().mutex);
  Drain(StreamOf(stream));
  Count("streams", -1);
  The().streams.erase(static_cast<Stream*>(stream));
  delete static_cast<Stream*>(stream);
  return 0;
}
EMULATED cuStreamSynchronize(void* stream) {
  const Guard guard(The().mutex);
  if (StreamOf(stream)->capture != nullptr) {
    StreamOf(stream)->capture->is_invalid = true;
    return kCaptureInvalidated;
  }
  return Drain(StreamOf(stream));
}
EMULATED cuCtxSynchronize() {
  const Guard guard(The().mutex);
  for (Stream* stream : The().streams) Drain(stream);
  return Drain(&The().main);
}
EMULATED cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return 0;
}
EMULATED cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}
EMULATED cuEventRecord(void* event, void* handle) {
  const Guard guard(The().mutex);
  Event& recorded = *static_cast<Event*>(event);
  Stream* stream = StreamOf(handle);
  if (stream->capture != nullptr) {
    recorded = {stream, nullptr, stream->capture, stream->capture->recorded.size()};
    return 0;
  }
  recorded = {stream, std::make_shared<float>(-1.0F), nullptr, 0};
  return Enqueue(handle, [time = recorded.time] {
    *time = The().time;
    return std::string();
  });
}
EMULATED cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const Guard guard(The().mutex);
  const Event& from = *static_cast<Event*>(begin);
  const Event& to = *static_cast<Event*>(end);
  if (from.time == nullptr || to.time == nullptr || *to.time < 0) return kNotReady;
  *milliseconds = *to.time - *from.time;
  return 0;
}

namespace {
int WaitFor(const Event& event) {
  const Guard guard(The().mutex);
  if (event.capture != nullptr) return kCapturedEvent;
  return event.time == nullptr || *event.time >= 0 ? 0 : Drain(event.stream);
}
}  // namespace

EMULATED cuEventSynchronize(void* event) { return WaitFor(*static_cast<Event*>(event)); }

namespace {
// A stream that waits for an event of a graph joins the graph, and the stream that recorded the
// event counts as joined.
int JoinCapture(Stream* stream, const Event& event) {
  const std::shared_ptr<Capture>& capture = event.capture;
  if (capture->has_ended) return kCapturedEvent;
  if (stream->capture != nullptr && stream->capture != capture) return kCaptureIsolation;
  if (stream->capture == nullptr) {
    stream->capture = capture;
    capture->apart[stream] = capture->recorded.size();
  }
  const auto other = capture->apart.find(event.stream);
  if (event.stream != stream && other != capture->apart.end() && other->second <= event.place) {
    capture->apart.erase(other);
  }
  return 0;
}
}  // namespace

EMULATED cuStreamWaitEvent(void* handle, void* event, unsigned) {
  const Guard guard(The().mutex);
  const Event& waited = *static_cast<Event*>(event);
  Stream* stream = StreamOf(handle);
  if (waited.capture != nullptr) return JoinCapture(stream, waited);
  if (waited.time == nullptr) return 0;  // an unrecorded event counts as complete
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return kCaptureIsolation;
  }
  // Captures the current state of the event, which can later be rerecorded or destroyed.
  return Enqueue(handle, [waited] {
    WaitFor(waited);
    return std::string();
  });
}
EMULATED cuStreamBeginCapture_v2(void* handle, int) {
  const Guard guard(The().mutex);
  Stream* stream = StreamOf(handle);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  return 0;
}
EMULATED cuStreamEndCapture(void* handle, void** graph) {
  const Guard guard(The().mutex);
  const std::shared_ptr<Capture> capture = StreamOf(handle)->capture;
  *graph = nullptr;
  if (capture == nullptr || capture->origin != StreamOf(handle)) return kInvalidValue;
  capture->has_ended = true;
  capture->origin->capture = nullptr;
  for (Stream* stream : The().streams) {
    if (stream->capture == capture) stream->capture = nullptr;
  }
  if (capture->is_invalid) return kCaptureInvalidated;
  if (!capture->apart.empty()) return kCaptureUnjoined;
  *graph = new std::vector<Work>(std::move(capture->recorded));
  return 0;
}
EMULATED cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  *made = new std::vector<Work>(*static_cast<std::vector<Work>*>(graph));
  Count("graphs", 1);
  return 0;
}
EMULATED cuGraphLaunch(void* graph, void* stream) {
  Count("replays", 1);
  for (const Work& work : *static_cast<std::vector<Work>*>(graph)) {
    if (const int result = Enqueue(stream, work); result != 0) return result;
  }
  return 0;
}
EMULATED cuGraphDestroy(void* graph) {
  delete static_cast<std::vector<Work>*>(graph);
  return 0;
}
EMULATED cuGraphExecDestroy(void* graph) {
  delete static_cast<std::vector<Work>*>(graph);
  Count("graphs", -1);
  return 0;
}
