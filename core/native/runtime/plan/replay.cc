// Runs the part of a plan that its device can record. At first, the steps are launched
// individually, then they are recorded, and from then on replayed.
#include <utility>

#include "runtime/border.h"
#include "runtime/plan/instance.h"

namespace opwright {

void Instance::SetStream(const StepRange& range, void* stream) noexcept {
  streams_[0] = stream;
  for (size_t i = range.begin; i < range.end; ++i) {
    if (plan_.steps[i].device == 0) steps_[i].call.stream = stream;
  }
}

// Returns null if the device or a kernel refuses; message_ then contains the reason.
std::unique_ptr<Graph> Instance::Record(const StepRange& range) noexcept {
  const std::shared_ptr<Device>& device = plan_.devices[0].device;
  const ow_error error = this->error();
  try {
    Recorder recorder(device);
    if (recorder.Begin(&error) != OW_OK) return nullptr;
    SetStream(range, recorder.stream());
    int32_t status = OW_OK;
    for (size_t i = range.begin; i < range.end && status == OW_OK; ++i) {
      if (plan_.steps[i].kind == StepKind::kPoll) continue;
      status =
          CallAtBorder(message_, sizeof(message_), [&] { return steps_[i].run(&steps_[i].call); });
    }
    SetStream(range, device->stream());
    std::unique_ptr<Graph> graph = recorder.End(&error);
    return status == OW_OK ? std::move(graph) : nullptr;
  } catch (...) {
    CatchAtBorder(message_, sizeof(message_));
    SetStream(range, device->stream());
    return nullptr;
  }
}

int32_t Instance::RunGraph(const StepRange& range) noexcept {
  if (!graph_ && has_run_ && !timer_ && plan_.may_capture()) {
    graph_ = Record(range);
    if (graph_) {
      plan_.CountGraph();
    } else {
      message_[sizeof(message_) - 1] = '\0';
      const RunHooks* hooks = state_->hooks;
      if (hooks != nullptr) {
        const int32_t status = hooks->forget_error(state_, message_, sizeof(message_));
        if (status != OW_OK) return Fail(nullptr, status);
      }
      plan_.RefuseCapture(message_);
      message_[0] = '\0';
    }
  }
  if (!graph_) return RunSteps(range);
  const ow_error error = this->error();
  const int32_t status = graph_->Replay(streams_[0], &error);
  if (status != OW_OK) Fail(nullptr, status);
  return status;
}

}  // namespace opwright
