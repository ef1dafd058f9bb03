#include "runtime/plan/capture.h"

#include <algorithm>

#include "runtime/border.h"
#include "runtime/plan/plan.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Whether a value is in the caller's memory, so its address differs in each run.
bool IsFromOutside(const Plan& plan, uint32_t value) {
  const Value& info = plan.values[value];
  return info.kind == ValueKind::kExternal &&
         plan.externals[static_cast<size_t>(info.index)].role != Role::kPersistable;
}

bool IsFeed(const Plan& plan, const Value& value) {
  return value.kind == ValueKind::kExternal &&
         plan.externals[static_cast<size_t>(value.index)].role == Role::kFeed;
}

// Whether a copy reads or writes a feed on the plan's device; it is repeated in each run, like a
// copy of a host feed.
bool IsFeedCopy(const Plan& plan, const CopyDetail& copy) {
  return IsFeed(plan, plan.values[copy.source]) || IsFeed(plan, plan.values[copy.destination]);
}

bool IsInside(const Plan& plan, const PlanStep& step) {
  if (step.kind == StepKind::kKernel) return step.device == 0;
  if (step.kind != StepKind::kCopy) return false;
  const auto& copy = static_cast<const CopyDetail&>(*step.detail);
  if (IsFeedCopy(plan, copy)) return false;
  return plan.values[copy.source].device == 0 && plan.values[copy.destination].device == 0;
}

// Returns the reason why a kernel cannot be part of a graph, or an empty string if it can.
std::string RefuseKernel(const Plan& plan, const PlanStep& step) {
  const std::string& device = plan.devices[step.device].device->name();
  const std::string who = Concat(step.prepared->op_type, "[", device, "]: ");
  if (step.device != 0) {
    return Concat(who, "an operator on the host is between operators of ",
                  plan.devices[0].device->name());
  }
  if (!step.prepared->capturable) return who + "its kernel is not capturable";
  for (uint32_t i = 0; i < plan.n_args(step); ++i) {
    if (IsFromOutside(plan, plan.args[step.args_begin + i])) {
      return who + "it works on memory of the caller";
    }
  }
  return "";
}

std::string RefuseStep(const Plan& plan, const PlanStep& step) {
  switch (step.kind) {
    case StepKind::kKernel:
      return RefuseKernel(plan, step);
    case StepKind::kPoll:
      return "";
    case StepKind::kCopy: {
      const auto& copy = static_cast<const CopyDetail&>(*step.detail);
      if (IsFeedCopy(plan, copy)) return "a feed is copied between operators";
      if (!IsInside(plan, step)) return "a copy from or to the host stands between operators";
      const bool outside =
          IsFromOutside(plan, copy.source) || IsFromOutside(plan, copy.destination);
      return outside ? "a copy works on memory of the caller" : "";
    }
    case StepKind::kChild:
    case StepKind::kContinue:
    case StepKind::kCheck:
      return "control flow and shapes that depend on values are decided on the host";
    default:
      return "the host waits between operators";
  }
}

}  // namespace

StepRange FindCapturable(const Plan& plan, std::string* refusal) {
  const Device& device = *plan.devices[0].device;
  if (!device.can_capture()) {
    *refusal = Concat("device ", device.name(), " records no graphs");
    return {};
  }
  if (!device.shares_memory()) {
    *refusal = Concat("device ", device.name(),
                      " gives every value separate memory, for a memory checker");
    return {};
  }
  const auto is_inside = [&plan](const PlanStep& step) { return IsInside(plan, step); };
  const auto& steps = plan.steps;
  const auto first = std::find_if(steps.begin(), steps.end(), is_inside);
  const auto last = std::find_if(steps.rbegin(), steps.rend(), is_inside).base();
  const StepRange range{static_cast<size_t>(first - steps.begin()),
                        static_cast<size_t>(last - steps.begin())};
  if (first == steps.end()) {
    *refusal = Concat("no operator runs on ", device.name());
    return {};
  }
  for (size_t i = range.begin; i < range.end; ++i) {
    *refusal = RefuseStep(plan, steps[i]);
    if (!refusal->empty()) return {};
  }
  return range;
}

Graph::~Graph() {
  FreeAtBorder("a device's graph_destroy ",
               [this] { device_->table()->graph_destroy(device_->state(), handle_); });
}

int32_t Graph::Replay(void* stream, const ow_error* error) noexcept {
  return CallAtBorder(error->message, error->message_bytes, [&] {
    return device_->table()->replay(device_->state(), stream, handle_, error);
  });
}

Recorder::~Recorder() {
  if (is_recording_) {
    char text[512] = {0};
    const ow_error error{text, sizeof(text)};
    FreeAtBorder("a device's end_capture ", [&] { End(&error); });
  }
  if (stream_ == nullptr) return;
  FreeAtBorder("a device's stream_destroy ",
               [this] { device_->table()->stream_destroy(device_->state(), stream_); });
}

int32_t Recorder::Begin(const ow_error* error) noexcept {
  const ow_device& table = *device_->table();
  const int32_t status = CallAtBorder(error->message, error->message_bytes, [&]() -> int32_t {
    const int32_t made = table.stream_create(device_->state(), &stream_, error);
    return made != OW_OK ? made : table.begin_capture(device_->state(), stream_, error);
  });
  is_recording_ = status == OW_OK;
  return status;
}

std::unique_ptr<Graph> Recorder::End(const ow_error* error) {
  is_recording_ = false;
  void* handle = nullptr;
  const int32_t status = CallAtBorder(error->message, error->message_bytes, [&] {
    return device_->table()->end_capture(device_->state(), stream_, &handle, error);
  });
  if (status != OW_OK) return nullptr;
  return std::make_unique<Graph>(device_, handle);
}

}  // namespace opwright
