// The emulated driver's streams, for its memory and the other emulated libraries.
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

// The outcome of work. The text is empty or an error; after an error, all driver calls return
// `result`.
struct Outcome {
  Outcome(std::string what, int with = kLaunchFailed) : text(std::move(what)), result(with) {}
  std::string text;
  int result;
};

using Work = std::function<Outcome()>;

struct Stream;

// A graph capture: the work of one stream, and of streams that joined by waiting for its events. At
// the end the original stream must have waited for each of them.
struct Capture {
  Stream* origin;
  std::vector<Work> recorded;
  std::map<Stream*, size_t> apart;  // the last work of an unjoined stream
  bool is_invalid = false;
  bool has_ended = false;
};

struct Stream {
  std::deque<Work> work;
  std::shared_ptr<Capture> capture;  // null while nothing is recorded
};

// Returns the index of the current context's device, or a negative number without a context.
int CurrentDevice();
int Enqueue(void* stream, Work work);
void Count(const char* what, int64_t change);
// Advances the clock of events. Nothing else takes time.
void Advance(float milliseconds);
// Returns the value that `emulator_set` has set, or `otherwise`.
int64_t Setting(const char* what, int64_t otherwise);

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_DRIVER_H_
