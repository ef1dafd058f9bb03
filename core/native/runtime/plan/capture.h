// Graphs: the steps of a plan that its device records once and replays as one.
#ifndef OPWRIGHT_RUNTIME_CAPTURE_H_
#define OPWRIGHT_RUNTIME_CAPTURE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/device.h"

namespace opwright {

class Plan;

// Steps of a plan, from `begin` to before `end`.
struct StepRange {
  size_t begin = 0;
  size_t end = 0;
  bool empty() const { return begin == end; }
};

// The steps that can be one graph: everything that the plan's device does between the copies of the
// feeds to it and the copies of the fetches from it. Empty if not all of it can be recorded; then
// `refusal` is the reason.
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

// A stream that records from Begin to End; returned with this object, which ends a recording
// that was not ended.
class Recorder {
 public:
  explicit Recorder(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void* stream() const { return stream_; }
  int32_t Begin(const ow_error* error) noexcept;
  // Null if the device failed.
  std::unique_ptr<Graph> End(const ow_error* error);

 private:
  std::shared_ptr<Device> device_;
  void* stream_ = nullptr;
  bool is_recording_ = false;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_CAPTURE_H_
