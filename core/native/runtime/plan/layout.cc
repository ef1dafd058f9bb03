// Builds an instance: memory, tensors, frames, bound kernels.
#include <algorithm>
#include <string>
#include <utility>

#include "runtime/border.h"
#include "runtime/library/host.h"
#include "runtime/plan/checked_steps.h"
#include "runtime/plan/instance.h"

namespace opwright {

void Instance::Build() {
  AllocateMemory();
  LayOutTensors();
  for (const Child* child : plan_.children) {
    children_.push_back(std::make_unique<Instance>(*child->plan, this, child));
    children_.back()->Build();
  }
  LayOutSteps();
  constant_versions_.resize(plan_.constant_sources.size());
  BindKernels();
}

void Instance::AllocateMemory() {
  memory_.resize(plan_.devices.size());
  for (size_t i = 0; i < plan_.devices.size(); ++i) {
    const DeviceMemory& wanted = plan_.devices[i];
    const std::string what = Concat("plan '", plan_.name, "'");
    if (wanted.device->has_arena()) {
      memory_[i].push_back(MakeRetirable<Storage>(wanted.device, wanted.arena_bytes, what));
    }
    for (const uint64_t bytes : wanted.buffers) {
      memory_[i].push_back(MakeRetirable<Storage>(wanted.device, bytes, what));
    }
    streams_.push_back(wanted.device->stream());
  }
  if (plan_.has_device_feeds) feeds_read_ = std::make_unique<Event>(plan_.devices[0].device);
  for (const Staging& wanted : plan_.staging) {
    const std::shared_ptr<Device>& device = plan_.devices[wanted.device].device;
    staging_.push_back(MakeRetirable<Storage>(device, wanted.bytes, plan_.name));
  }
}

void* Instance::Address(uint32_t device, int64_t index) const {
  if (!plan_.devices[device].device->has_arena()) {
    return memory_[device][static_cast<size_t>(index)]->handle();
  }
  return static_cast<char*>(memory_[device][0]->handle()) + index;
}

void Instance::LayOutTensors() {
  dynamic_.resize(plan_.dynamic_values.size());
  externals_.resize(plan_.externals.size());
  tensors_.resize(plan_.values.size());
  shown_dims_ = plan_.dims;
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const Value& info = plan_.values[i];
    DLTensor& tensor = tensors_[i];
    auto* dims = shown_dims_.data() + info.dims_begin;
    tensor = {};
    tensor.device = plan_.devices[info.device].device->dl_device();
    tensor.ndim = info.ndim;
    tensor.dtype = info.dtype;
    tensor.shape = dims;
    tensor.strides = dims + info.ndim;
    if (info.kind == ValueKind::kArena && info.bytes != 0) {
      tensor.data = Address(info.device, info.index);
    } else if (info.kind == ValueKind::kDynamic) {
      DynamicSlot& slot = dynamic_[static_cast<size_t>(info.index)];
      slot.dims.assign(dims, dims + 2 * info.ndim);
      slot.shown = slot.dims;
      slot.dims.reserve(1);  // a shape must not be NULL
      slot.shown.reserve(1);
      tensor.shape = slot.shown.data();
      tensor.strides = tensor.shape + info.ndim;
    }
  }
}

void Instance::ReservePacks() {
  size_t n_packs = 0;
  for (const PlanStep& step : plan_.steps)
    n_packs += step.prepared ? step.prepared->packs.size() : 0;
  packs_.reserve(n_packs);  // frames point into it
}

void Instance::LayOutSteps() {
  args_.reserve(plan_.args.size());
  for (const uint32_t value : plan_.args) args_.push_back(&tensors_[value]);
  ReservePacks();
  steps_.resize(plan_.steps.size());
  handles_.resize(plan_.steps.size());
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    handles_[i] = {this, &step};
    const Device& device = *plan_.devices[step.device].device;
    // Outputs cannot be checked if the kernel only enqueues work that writes them later.
    const bool can_check = step.prepared && device.is_host() && device.stream() == nullptr;
    steps_[i].run = can_check && plan_.checks != 0 ? RunChecked : step.run;
    ow_call& call = steps_[i].call;
    call = {};
    call.size = sizeof(call);
    call.args = args_.data() + step.args_begin;
    call.slot_begin = plan_.slot_begin.data() + step.slots_begin;
    call.n_slots = step.n_slots;
    call.n_threads = step.prepared ? step.prepared->n_threads : 1;
    call.prepared = step.prepared ? step.prepared->state() : step.detail.get();
    call.stream = streams_[step.device];
    if (step.workspace_bytes != 0) call.workspace = Address(step.device, step.workspace_offset);
    call.workspace_bytes = step.workspace_bytes;
    call.host = HostServices();
    call.run_handle = &handles_[i];
    call.message = message_;
    call.message_bytes = sizeof(message_);
    if (step.prepared) LayOutPacks(step, &steps_[i]);
  }
}

void Instance::LayOutPacks(const PlanStep& step, Step* frame) {
  for (const ow_pack& wish : step.prepared->packs) {
    const uint32_t value = ValueOf(step, wish.arg);
    const Value& info = plan_.values[value];
    PackSlot slot{};
    slot.step = frame;
    slot.prepared = step.prepared.get();
    slot.wish = wish;
    slot.arg = wish.arg;
    const bool is_constant = info.kind != ValueKind::kExternal;
    slot.external = is_constant ? kConstant : static_cast<uint32_t>(info.index);
    slot.source = &tensors_[value];
    slot.packed = tensors_[value];
    slot.packed.data = nullptr;
    const std::shared_ptr<Device>& device = plan_.devices[info.device].device;
    slot.is_shared = !is_constant && device->is_host() && !step.prepared->needs_gil();
    if (!slot.is_shared) {
      slot.storage = MakeRetirable<Storage>(device, PackRoom(wish), plan_.name);
      const uint64_t alignment = PackAlignment(wish);
      const auto address = reinterpret_cast<uintptr_t>(slot.storage->handle()) + alignment - 1;
      slot.packed.data = reinterpret_cast<void*>(address & ~(alignment - 1));
    }
    packs_.push_back(std::move(slot));
    args_[step.args_begin + wish.arg] = &packs_.back().packed;
  }
}

void Instance::BindKernels() {
  for (; n_bound_ < steps_.size(); ++n_bound_) {
    const PlanStep& step = plan_.steps[n_bound_];
    if (step.kind != StepKind::kKernel || step.prepared->kernel().bind == nullptr) continue;
    ow_call& call = steps_[n_bound_].call;
    const ow_kernel& kernel = step.prepared->kernel();
    const ShownTensors shown(*this, step, call);
    const int32_t status =
        CallAtBorder(message_, sizeof(message_), [&] { return kernel.bind(&call, &call.bound); });
    const std::string change = status == OW_OK ? shown.Restore() : "";
    if (!change.empty()) {
      ++n_bound_;  // it is bound, and is unbound together with all other kernels
      throw BindError(ErrorKind::kKernel, kernel.op_type, change, plan_, step.op_index);
    }
    if (status == OW_OK) continue;
    std::string reason =
        message_[0] != '\0' ? std::string(message_) : Concat("failed with status ", status);
    throw BindError(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kKernel,
                    kernel.op_type, std::move(reason), plan_, step.op_index);
  }
}

}  // namespace opwright
