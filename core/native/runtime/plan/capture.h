// Graphs: sequences of plan steps that the device records once and then replays as a whole.
#ifndef OPWRIGHT_RUNTIME_CAPTURE_H_
#define OPWRIGHT_RUNTIME_CAPTURE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/device.h"

namespace opwright {

class Plan;

// The steps [begin, end) of a plan.
struct StepRange {
  size_t begin = 0;
  size_t end = 0;
  bool empty() const { return begin == end; }
};

// Returns the steps that can form one graph: all work of the plan's device between the copies of
// feeds to it and the copies of fetches from it. If part of this work cannot be recorded, returns
// an empty range and sets `refusal` to the reason.
StepRange FindCapturable(const Plan& plan, std::string* refusal);

// A recorded graph.
class Graph {
 public:
  Graph(std::shared_ptr<Device> device, void* handle)
      : device_(std::move(device)), handle_(handle) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int32_t Replay(void* stream, const ow_error* error) noexcept;

 private:
  std::shared_ptr<Device> device_;
  void* handle_;
};

// A stream that records from Begin to End. The destructor ends an unfinished recording and gives
// the stream back to the device.
class Recorder {
 public:
  explicit Recorder(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void* stream() const { return stream_; }
  int32_t Begin(const ow_error* error) noexcept;
  // Returns null if the device fails.
  std::unique_ptr<Graph> End(const ow_error* error);

 private:
  std::shared_ptr<Device> device_;
  void* stream_ = nullptr;
  bool is_recording_ = false;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_CAPTURE_H_
