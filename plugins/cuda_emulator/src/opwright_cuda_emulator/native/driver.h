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

// How a piece of work went: the text is empty where it went well, else what was wrong. The result
// is what calls of the driver return from then on.
struct Outcome {
  Outcome(std::string what, int with = kLaunchFailed) : text(std::move(what)), result(with) {}
  std::string text;
  int result;
};

using Work = std::function<Outcome()>;

struct Stream;

// What becomes a graph: the work of one stream, and of those that have come in by waiting for an
// event of it. They must have come back at the end: the stream of the beginning waits for each.
struct Capture {
  Stream* origin;
  std::vector<Work> recorded;
  std::map<Stream*, size_t> apart;  // where the last work of a stream lies that is not back
  bool is_invalid = false;
  bool has_ended = false;
};

struct Stream {
  std::deque<Work> work;
  std::shared_ptr<Capture> capture;  // null while nothing is recorded
};

// Of the current context; below 0 without one.
int CurrentDevice();
int Enqueue(void* stream, Work work);
void Count(const char* what, int64_t change);
// Lets the time go on by so much, in milliseconds: what events tell. Nothing else takes any.
void Advance(float milliseconds);
// What `emulator_set` has set, or `otherwise`.
int64_t Setting(const char* what, int64_t otherwise);

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_DRIVER_H_
