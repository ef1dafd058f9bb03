// The streams of the emulated driver, as used by its memory and the other emulated libraries.
#ifndef OPWRIGHT_CUDA_EMULATOR_DRIVER_H_
#define OPWRIGHT_CUDA_EMULATOR_DRIVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime.h"

#define EMULATED extern "C" __attribute__((visibility("default"))) int

namespace emulator {

constexpr int kMisalignedAddress = 716;
constexpr int kLaunchFailed = 719;

// The outcome of enqueued work. `text` is an error message, or empty on success. After an error,
// all driver calls return `result`.
struct Outcome {
  Outcome(std::string what, int with = kLaunchFailed) : text(std::move(what)), result(with) {}
  std::string text;
  int result;
};

using Work = std::function<Outcome()>;

struct Stream;

// A graph capture, with the work of one stream and of streams that joined by waiting for its
// events. At the end, the original stream must have waited for each of these streams.
struct Capture {
  Stream* origin;
  std::vector<Work> recorded;
  std::map<Stream*, size_t> apart;  // the last work of each unjoined stream
  bool is_invalid = false;
  bool has_ended = false;
};

struct Stream {
  std::deque<Work> work;
  std::shared_ptr<Capture> capture;  // null unless a graph is recorded
};

// Returns the device index of the current context, or a negative number without a context.
int CurrentDevice();
int Enqueue(void* stream, Work work);
void Count(const char* what, int64_t change);
// Advances the clock that events read; nothing else advances this clock.
void Advance(float milliseconds);
// Returns the value set by `emulator_set`, or `otherwise`.
int64_t Setting(const char* what, int64_t otherwise);

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_DRIVER_H_
