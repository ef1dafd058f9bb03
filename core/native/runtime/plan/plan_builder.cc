#include "runtime/plan/plan_builder.h"

#include <algorithm>
#include <limits>

#include "runtime/plan/run.h"
#include "runtime/status.h"

namespace opwright {

PlanBuilder::PlanBuilder(const std::shared_ptr<Device>& device, const std::string& name,
                         uint32_t checks)
    : plan_(MakeRetirable<Plan>()) {
  plan_->name = name;
  plan_->checks = checks;
  plan_->devices.push_back({device, 0, {}});
  plan_->dims.push_back(0);  // never empty, so no tensor's shape is NULL
  plan_->slot_begin.push_back(0);
}

Plan& PlanBuilder::plan() {
  if (!plan_) Throw(ErrorKind::kProgram, "plan: the plan was already built; make a new builder");
  return *plan_;
}

const Plan& PlanBuilder::plan() const { return const_cast<PlanBuilder*>(this)->plan(); }

uint32_t PlanBuilder::DeviceIndex(const std::shared_ptr<Device>& device) {
  if (!device) return 0;
  auto& devices = plan().devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].device == device) return static_cast<uint32_t>(i);
  }
  devices.push_back({device, 0, {}});
  return static_cast<uint32_t>(devices.size() - 1);
}

const Value& PlanBuilder::CheckedValue(uint32_t value, const char* what) const {
  if (value >= plan().values.size()) {
    Fail(what, " must be a value of the plan, got ", value, " of ", plan().values.size());
  }
  return plan().values[value];
}

uint32_t PlanBuilder::AddValue(DLDataType dtype, const Shape& shape, ValueKind kind, int64_t index,
                               const std::shared_ptr<Device>& device, const Shape* strides) {
  Plan& plan = this->plan();
  Value value{};
  value.dtype = dtype;
  value.kind = kind;
  value.ndim = static_cast<int32_t>(shape.size());
  value.device = DeviceIndex(device);
  value.index = index;
  value.dims_begin = plan.dims.size();
  value.compact = strides == nullptr;
  const auto id = static_cast<uint32_t>(plan.values.size());
  const bool unknown = std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; });
  if (unknown != (kind == ValueKind::kDynamic)) {
    Fail("exactly the dynamic values must have unknown dims, got ", ShapeText(shape));
  }
  plan.dims.insert(plan.dims.end(), shape.begin(), shape.end());
  if (kind == ValueKind::kDynamic) {
    plan.dims.resize(plan.dims.size() + shape.size());
    value.index = static_cast<int64_t>(plan.dynamic_values.size());
    plan.dynamic_values.push_back(id);
  } else {
    const int64_t numel =
        CheckedNumel("plan '" + plan.name + "'", shape.data(), value.ndim, ItemSize(dtype));
    Shape steps(shape.size());
    if (strides == nullptr) {
      FillRowMajorStrides(shape.data(), value.ndim, steps.data());
    } else {
      if (strides->size() != shape.size()) Fail("strides must have one entry a dim");
      steps = *strides;
    }
    int64_t last = 0;
    for (size_t i = 0; i < shape.size() && numel > 0; ++i) {
      int64_t reach = 0;
      if (steps[i] < 0 || __builtin_mul_overflow(shape[i] - 1, steps[i], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        Fail("strides must be at least 0 and reach less than 2^63, got ", ShapeText(steps));
      }
    }
    int64_t bytes = 0;
    if (numel > 0 && (__builtin_add_overflow(last, 1, &bytes) ||
                      __builtin_mul_overflow(bytes, ItemSize(dtype), &bytes))) {
      Fail("strides must reach less than 2^63 bytes, got ", ShapeText(steps));
    }
    value.bytes = static_cast<uint64_t>(bytes);
    plan.dims.insert(plan.dims.end(), steps.begin(), steps.end());
  }
  if (kind == ValueKind::kExternal) {
    if (index < 0 || static_cast<size_t>(index) >= plan.externals.size()) {
      Fail("an external value needs an external, got ", index, " of ", plan.externals.size());
    }
    plan.externals[static_cast<size_t>(index)].values.push_back(id);
  }
  plan.values.push_back(value);
  return id;
}

uint32_t PlanBuilder::AddExternal(Role role, const std::string& name, bool create) {
  Plan& plan = this->plan();
  const auto id = static_cast<uint32_t>(plan.externals.size());
  plan.externals.push_back({role, name, create, {}});
  if (role == Role::kFeed) plan.feeds.push_back(id);
  if (role == Role::kPersistable) plan.needs_scope = true;
  return id;
}

void PlanBuilder::CheckMemory(uint64_t bytes) const {
  if (bytes <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return;
  Throw(ErrorKind::kOutOfMemory, "plan '", plan().name,
        "': its memory must be less than 2^63 bytes, got ", bytes, "; make its values smaller");
}

void PlanBuilder::SetArena(uint64_t bytes, const std::shared_ptr<Device>& device) {
  DeviceMemory& memory = plan().devices[DeviceIndex(device)];
  CheckMemory(bytes);
  if (!memory.device->has_arena() && bytes != 0) {
    Fail("device ", memory.device->name(), " has no arena; give it buffers");
  }
  memory.arena_bytes = bytes;
}

void PlanBuilder::SetBuffers(std::vector<uint64_t> sizes, const std::shared_ptr<Device>& device) {
  DeviceMemory& memory = plan().devices[DeviceIndex(device)];
  if (memory.device->has_arena() && !sizes.empty()) {
    Fail("device ", memory.device->name(), " has one arena; give it no buffers");
  }
  uint64_t total = 0;
  for (const uint64_t size : sizes) {
    CheckMemory(size);
    total += size;
    CheckMemory(total);
  }
  memory.buffers = std::move(sizes);
}

PlanStep& PlanBuilder::AddStep(StepKind kind, ow_run_fn run, int32_t op_index,
                               std::shared_ptr<StepDetail> detail) {
  if (plan().has_continuation) Fail("a continuation must end the plan, got a later step");
  PlanStep& step = plan().steps.emplace_back();
  step.kind = kind;
  step.run = run;
  step.op_index = op_index;
  step.detail = std::move(detail);
  return step;
}

void PlanBuilder::CheckPacks(const KernelRequest& request) const {
  for (const ow_pack& pack : request.prepared->packs) {
    const bool inside = pack.arg < request.args.size();
    const Value* value = inside ? &CheckedValue(request.args[pack.arg], "a packed value") : nullptr;
    const bool is_persistable =
        value != nullptr && value->kind == ValueKind::kExternal &&
        plan().externals[static_cast<size_t>(value->index)].role == Role::kPersistable;
    if (!is_persistable && (value == nullptr || !IsConstant(*value))) {
      Fail("operator ", request.op_index,
           " can pack persistables and constants only, got argument ", pack.arg);
    }
  }
}

void PlanBuilder::AddKernel(KernelRequest request) {
  const auto& begin = request.slot_begin;
  const bool well_formed = !begin.empty() && begin.front() == 0 &&
                           std::is_sorted(begin.begin(), begin.end()) &&
                           begin.back() == request.args.size() && request.n_inputs < begin.size();
  if (!well_formed) {
    Fail("operator ", request.op_index,
         " needs slot_begin rising from 0 to the number of "
         "arguments, got ",
         begin.size(), " entries for ", request.args.size());
  }
  auto check = std::make_shared<CheckDetail>();
  for (size_t i = 0; i < request.args.size(); ++i) {
    const Value& value = CheckedValue(request.args[i], "an argument");
    if (value.kind != ValueKind::kDynamic) continue;
    if (i < begin[request.n_inputs]) {
      Fail("operator ", request.op_index, " reads a dynamic value; end the plan before it");
    }
    check->values.push_back(request.args[i]);
  }
  if (request.workspace_bytes < request.prepared->workspace_bytes) {
    Fail("operator ", request.op_index, " needs ", request.prepared->workspace_bytes,
         " bytes of workspace as its kernel was prepared, got ", request.workspace_bytes,
         "; plan memory for the kernels that the plan runs");
  }
  CheckPacks(request);
  const uint32_t device = DeviceIndex(request.device);
  PlanStep& step =
      AddStep(StepKind::kKernel, request.prepared->kernel().run, request.op_index, nullptr);
  step.device = device;
  step.n_slots = static_cast<uint32_t>(begin.size() - 1);
  step.n_inputs = request.n_inputs;
  step.args_begin = plan_->args.size();
  step.slots_begin = plan_->slot_begin.size();
  step.workspace_offset = request.workspace_offset;
  step.workspace_bytes = request.workspace_bytes;
  step.estimate_ns = request.estimate_ns != 0 ? request.estimate_ns : request.prepared->estimate_ns;
  step.needs_gil = request.prepared->needs_gil();
  plan_->n_python_steps += step.needs_gil ? 1 : 0;
  step.prepared = std::move(request.prepared);
  plan_->args.insert(plan_->args.end(), request.args.begin(), request.args.end());
  plan_->slot_begin.insert(plan_->slot_begin.end(), begin.begin(), begin.end());
  if (!check->values.empty()) AddStep(StepKind::kCheck, RunCheck, request.op_index, check);
}

bool PlanBuilder::IsConstant(const Value& value) const {
  return value.kind == ValueKind::kArena && constants_.count({value.device, value.index}) != 0;
}

void PlanBuilder::EndConstants() {
  Plan& plan = this->plan();
  if (plan.n_constant != 0) Fail("the end of the constants must be marked once, got a second mark");
  std::set<std::pair<uint32_t, int64_t>> made;
  std::set<uint32_t> sources;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != StepKind::kKernel) Fail("only kernels compute constants, got another step");
    const uint32_t* args = plan.args.data() + step.args_begin;
    const uint32_t* slots = plan.slot_begin.data() + step.slots_begin;
    const uint32_t first_output = slots[step.n_inputs];
    for (uint32_t i = 0; i < slots[step.n_slots]; ++i) {
      const Value& value = plan.values[args[i]];
      const bool is_source =
          value.kind == ValueKind::kExternal &&
          plan.externals[static_cast<size_t>(value.index)].role == Role::kPersistable;
      if (is_source) sources.insert(static_cast<uint32_t>(value.index));
      if (is_source || value.kind == ValueKind::kNone) continue;
      const std::pair<uint32_t, int64_t> place{value.device, value.index};
      const bool is_own = value.kind == ValueKind::kArena;
      if (!is_own || (i < first_output && made.count(place) == 0)) {
        Fail("operator ", step.op_index, " must compute a constant from constants, got argument ",
             i);
      }
      made.insert(place);
    }
  }
  constants_ = std::move(made);
  plan.constant_sources.assign(sources.begin(), sources.end());
  plan.n_constant = plan.steps.size();
}

void PlanBuilder::AddCopy(uint32_t source, uint32_t destination, int32_t op_index) {
  const Value from = CheckedValue(source, "a copy's source");
  const Value to = CheckedValue(destination, "a copy's destination");
  const Device& from_device = *plan().devices[from.device].device;
  const Device& to_device = *plan().devices[to.device].device;
  const auto is_known = [](const Value& value) {
    return value.kind != ValueKind::kDynamic && value.kind != ValueKind::kNone && value.compact;
  };
  if (!is_known(from) || !is_known(to) || from.bytes != to.bytes ||
      !SameDtype(from.dtype, to.dtype)) {
    Fail("a copy requires two compact values of known, equal size and dtype, got ", from.bytes,
         " and ", to.bytes, " bytes");
  }
  if (from.device != to.device && !from_device.is_host() && !to_device.is_host()) {
    Fail("a copy between two devices must go through the host, got ",
         NameBeside(from_device, to_device), " and ", NameBeside(to_device, from_device));
  }
  auto detail = std::make_shared<CopyDetail>();
  detail->source = source;
  detail->destination = destination;
  const bool needs_gil = from_device.needs_gil() || to_device.needs_gil();
  PlanStep& step = AddStep(StepKind::kCopy, RunCopy, op_index, std::move(detail));
  step.needs_gil = needs_gil;
  step.estimate_ns = from.bytes / 8;  // 8 GB/s, the minimum speed of a host copy
}

void PlanBuilder::AddSync(const std::shared_ptr<Device>& device) {
  auto detail = std::make_shared<SyncDetail>();
  detail->device = DeviceIndex(device);
  const bool needs_gil = plan().devices[detail->device].device->needs_gil();
  AddStep(StepKind::kSync, RunSync, -1, std::move(detail)).needs_gil = needs_gil;
}

void PlanBuilder::AddFeedsRead() {
  if (plan().has_device_feeds) Fail("the end of feed reads must be marked once, got a second mark");
  const bool needs_gil = plan().devices[0].device->needs_gil();
  AddStep(StepKind::kFeedsRead, RunFeedsRead, -1, nullptr).needs_gil = needs_gil;
  plan().has_device_feeds = true;
}

void PlanBuilder::AddFetch(uint32_t value) {
  if (CheckedValue(value, "a fetch").kind == ValueKind::kNone) {
    Fail("a fetch must have elements, got value ", value);
  }
  plan().fetches.push_back(value);
}

void PlanBuilder::SetWrites(const std::vector<std::string>& names) { writes_ = names; }

}  // namespace opwright
