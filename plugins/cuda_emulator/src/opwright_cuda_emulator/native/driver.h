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

// The outcome of work: the text is empty, or an error. The driver's calls return the result from
// then on.
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

// The number of the device of the current context; negative without one.
int CurrentDevice();
int Enqueue(void* stream, Work work);
void Count(const char* what, int64_t change);
// Advances the clock of events by this many milliseconds. Nothing else takes time.
void Advance(float milliseconds);
// The value of `emulator_set`, or `otherwise`.
int64_t Setting(const char* what, int64_t otherwise);

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_DRIVER_H_
