#include "runtime/plan/instance.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/border.h"
#include "runtime/library/host.h"
#include "runtime/library/limits.h"
#include "runtime/plan/checked_steps.h"
#include "runtime/threads/team.h"

namespace opwright {

namespace {
const std::vector<std::pair<uint32_t, uint32_t>> kNoBindings;
}

Instance::Instance(const Plan& plan, Instance* parent, const Child* child)
    : plan_(plan),
      source_(parent),
      source_bindings_(child == nullptr ? &kNoBindings : &child->bindings) {}

Instance::~Instance() {
  UncountMemory();
  for (size_t i = n_bound_; i-- > 0;) {
    const PlanStep& step = plan_.steps[i];
    if (step.kind != StepKind::kKernel) continue;
    const ow_kernel& kernel = step.prepared->kernel();
    if (kernel.bind == nullptr || step.prepared->is_orphan()) continue;
    FreeAtBorder("a kernel's unbind ",
                 [&] { kernel.unbind(step.prepared->state(), steps_[i].call.bound); });
  }
}

int64_t Instance::memory_bytes() const {
  uint64_t bytes = 0;
  const auto add = [&bytes](const std::shared_ptr<Storage>& storage) {
    if (storage) bytes += storage->bytes();
  };
  for (const auto& blocks : memory_) std::for_each(blocks.begin(), blocks.end(), add);
  std::for_each(staging_.begin(), staging_.end(), add);
  for (const DynamicSlot& slot : dynamic_) add(slot.storage);
  for (const auto& child : children_) bytes += static_cast<uint64_t>(child->memory_bytes());
  return static_cast<int64_t>(bytes);
}

int64_t Instance::CountMemory() noexcept {
  const int64_t bytes = memory_bytes();
  if (bytes != counted_bytes_) IdleMemory::Get().Count(bytes - counted_bytes_);
  counted_bytes_ = bytes;
  return bytes;
}

Owner Instance::OwnerOf(uint32_t value) const {
  const Value& info = plan_.values[value];
  switch (info.kind) {
    case ValueKind::kArena: {
      const auto& blocks = memory_[info.device];
      const bool one_arena = plan_.devices[info.device].device->has_arena();
      return {blocks[one_arena ? 0 : static_cast<size_t>(info.index)], nullptr};
    }
    case ValueKind::kDynamic:
      return {dynamic(value).storage, nullptr};
    case ValueKind::kNone:
      return {};
    case ValueKind::kExternal:
      break;
  }
  const auto external = static_cast<uint32_t>(info.index);
  const ExternalSlot& slot = externals_[external];
  if (slot.tensor) return {slot.tensor->storage, nullptr};
  if (slot.foreign != nullptr) return {nullptr, slot.foreign};
  for (const auto& [source_value, bound] : *source_bindings_) {
    if (bound == external) return source_->OwnerOf(source_value);
  }
  return {};
}

void Instance::BindCaptured(Instance* other,
                            const std::vector<std::pair<uint32_t, uint32_t>>& bindings) noexcept {
  for (const auto& [value, external] : bindings) {
    other->SetExternal(external, tensors_[value].data, nullptr);
  }
}

bool Instance::BindExternal(uint32_t external, const std::shared_ptr<Scope>& scope,
                            BindProblem* problem) {
  const External& info = plan_.externals[external];
  const Value& value = plan_.values[info.values[0]];
  const int64_t* dims = plan_.dims.data() + value.dims_begin;
  const std::shared_ptr<Device>& device = plan_.devices[value.device].device;
  std::shared_ptr<ScopeVariable> variable = scope->FindVar(info.name);
  std::shared_ptr<const Tensor> tensor = variable ? variable->tensor() : nullptr;
  const bool fits =
      tensor && tensor->HasMeta(value.dtype, dims, value.ndim) && tensor->device() == device;
  if (!fits && info.create) {
    variable = scope->Var(info.name);
    tensor = MakeTensor(device, value.dtype, Shape(dims, dims + value.ndim), info.name);
    const std::vector<char> zeros(tensor->bytes());
    device->CopyFromHost(tensor->data(), zeros.data(), zeros.size());
    variable->Replace(tensor);
  } else if (!tensor) {
    *problem = {ErrorKind::kVariableNotFound,
                Concat(info.name, ": the variable must be set before plan '", plan_.name,
                       "' runs, got none in the scope; run the startup program or set it")};
    return false;
  } else if (!fits) {
    *problem = {ErrorKind::kShape,
                Concat(info.name, ": plan '", plan_.name, "' was made for ", DtypeName(value.dtype),
                       ShapeText(dims, value.ndim), " on ", NameBeside(*device, *tensor->device()),
                       ", got ", DtypeName(tensor->dtype), ShapeText(tensor->shape), " on ",
                       NameBeside(*tensor->device(), *device))};
    return false;
  }
  const auto& writes = plan_.writes;
  if (tensor->storage->is_read_only() &&
      std::find(writes.begin(), writes.end(), external) != writes.end()) {
    *problem = {ErrorKind::kProgram,
                Concat(info.name, ": plan '", plan_.name,
                       "' writes the variable, so its memory must be writable, got a read-only "
                       "array that it borrows; set a copy of it")};
    return false;
  }
  SetExternal(external, tensor->data(), nullptr);
  const bool moved = externals_[external].tensor != tensor;
  if (moved) graph_ = nullptr;  // the graph uses the old memory
  if (moved || externals_[external].variable != variable) {
    are_constants_made_ = false;
    for (PackSlot& slot : packs_) {
      if (slot.external == external) slot.is_packed = false;
    }
  }
  externals_[external].variable = std::move(variable);
  externals_[external].tensor = std::move(tensor);
  return true;
}

bool Instance::Bind(const std::shared_ptr<Scope>& scope, BindProblem* problem) {
  if (!plan_.needs_scope) return true;
  if (!scope) {
    *problem = {ErrorKind::kProgram,
                Concat(plan_.name, ": the plan reads variables, got no scope; pass one")};
    return false;
  }
  scope_ = nullptr;  // incompletely bound until the end
  // The version is read first so that a concurrent change makes the next call repeat the lookup.
  const uint64_t version = scope->structure_version();
  for (uint32_t i = 0; i < externals_.size(); ++i) {
    if (plan_.externals[i].role != Role::kPersistable) continue;
    if (!BindExternal(i, scope, problem)) return false;
  }
  for (const auto& child : children_) {
    if (!child->Bind(scope, problem)) return false;
  }
  scope_ = scope;
  bound_version_ = version;
  return true;
}

DLTensor Instance::Restored(uint32_t value, const DLTensor& shown) const {
  const Value& info = plan_.values[value];
  DLTensor tensor = shown;
  tensor.device = plan_.devices[info.device].device->dl_device();
  tensor.ndim = info.ndim;
  tensor.dtype = info.dtype;
  tensor.shape = const_cast<int64_t*>(dims(value));
  tensor.strides = tensor.shape + info.ndim;
  tensor.byte_offset = 0;
  return tensor;
}

void Instance::Resize(uint32_t value, int32_t ndim, const int64_t* shape) {
  const Value& info = plan_.values[value];
  const int64_t* declared = plan_.dims.data() + info.dims_begin;
  bool fits = ndim == info.ndim && (ndim == 0 || shape != nullptr);
  for (int32_t i = 0; fits && i < ndim; ++i) fits = declared[i] < 0 || declared[i] == shape[i];
  if (!fits) {
    Throw(ErrorKind::kShape, "resize: the shape must fit ", ShapeText(declared, info.ndim),
          ", got ",
          ndim < 0 || ndim > kMaxRank ? Concat("rank ", ndim)
          : shape == nullptr          ? "NULL"
                                      : ShapeText(shape, ndim));
  }
  const int64_t numel = CheckedNumel("resize", shape, ndim, ItemSize(info.dtype));
  const auto bytes = static_cast<uint64_t>(numel * ItemSize(info.dtype));
  DynamicSlot& slot = dynamic_[static_cast<size_t>(info.index)];
  // Memory of an earlier run is reused, unless a kernel stored a view of it.
  const std::shared_ptr<Device>& device = plan_.devices[info.device].device;
  const bool reusable = slot.storage && slot.storage.use_count() == 1 &&
                        (slot.storage->bytes() == bytes ||
                         (device->shares_memory() && slot.storage->bytes() > bytes));
  if (!reusable) {
    // The device is called from here anyway, so the old memory is freed immediately.
    if (slot.storage && slot.storage.use_count() == 1) slot.storage->Free();
    slot.storage = nullptr;
    slot.storage = MakeRetirable<Storage>(device, bytes, plan_.name);
  }
  std::copy(shape, shape + ndim, slot.dims.begin());
  FillRowMajorStrides(shape, ndim, slot.dims.data() + ndim);
  slot.shown = slot.dims;
  tensors_[value].data = bytes == 0 ? nullptr : slot.storage->handle();
  if ((plan_.checks & kCheckOutputs) != 0 && bytes != 0 && device->is_host()) {
    MarkUnwritten(Restored(value, tensors_[value]));
  }
  slot.is_set = true;
}

int32_t Instance::MakeConstants() noexcept {
  const std::vector<uint32_t>& sources = plan_.constant_sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    // The version is read before the variables so that the next run recomputes the constants after
    // a concurrent write.
    const uint64_t version = externals_[sources[i]].variable->version();
    if (constant_versions_[i] == version) continue;
    constant_versions_[i] = version;
    are_constants_made_ = false;
  }
  if (are_constants_made_) return OW_OK;
  const int32_t status = RunSteps({0, plan_.n_constant});
  are_constants_made_ = status == OW_OK;
  ++n_times_made_;
  return status;
}

int32_t Instance::Pack(bool constants) noexcept {
  for (PackSlot& slot : packs_) {
    if ((slot.external == kConstant) != constants) continue;
    // The version is read before the copy so that the next run repacks after a concurrent write.
    const uint64_t version =
        constants ? n_times_made_ : externals_[slot.external].variable->version();
    if (slot.is_packed && slot.version == version) continue;
    int32_t status = OW_OK;
    if (!slot.is_shared) {
      status = PackInto(&slot, slot.packed.data);
      slot.version = version;
    } else {
      try {
        status = PackShared();
      } catch (...) {
        status = Fail(nullptr, CatchAtBorder(message_, sizeof(message_)));
      }
    }
    if (status != OW_OK) return status;
  }
  return OW_OK;
}

int32_t Instance::MarkFeedsRead() noexcept {
  const ow_error error = this->error();
  return feeds_read_->Record(&error);
}

void Instance::TouchWritten() noexcept {
  for (const uint32_t external : plan_.writes) externals_[external].variable->Touch();
}

int32_t Instance::Fail(const PlanStep* step, int32_t status) noexcept {
  if (state_->status != OW_OK) return status;  // a child has set the reason
  state_->status = status;
  state_->failed_plan = &plan_;
  state_->failed_op = step == nullptr ? -1 : step->op_index;
  message_[sizeof(message_) - 1] = '\0';
  try {
    state_->message =
        message_[0] != '\0' ? std::string(message_) : Concat("failed with status ", status);
  } catch (const std::bad_alloc&) {
    state_->message.clear();  // only the status is available
  }
  return status;
}

int32_t Instance::RunSteps(const StepRange& range) noexcept {
  int32_t status = OW_OK;
  const Step* step = steps_.data() + range.begin;
  const Step* const end = steps_.data() + range.end;
  try {
    for (; step != end; ++step) {
      status = step->run(&step->call);
      if (__builtin_expect(status != OW_OK, 0)) break;
    }
  } catch (...) {  // a kernel's run threw; free if none throws
    status = CatchAtBorder(message_, sizeof(message_));
  }
  if (step != end) Fail(&plan_.steps[static_cast<size_t>(step - steps_.data())], status);
  return status;
}

int32_t Instance::Run(RunState* state) noexcept {
  std::optional<Team::BriefWork> brief;
  if (plan_.is_brief) brief.emplace();
  state_ = state;
  message_[0] = '\0';
  for (DynamicSlot& slot : dynamic_) slot.is_set = false;
  if (feeds_read_) feeds_read_->Forget();
  int32_t status = packs_.empty() ? OW_OK : Pack(false);
  if (status == OW_OK && plan_.n_constant != 0) {
    status = MakeConstants();
    if (status == OW_OK) status = Pack(true);
  }
  if (status != OW_OK) return status;
  const StepRange& graph = plan_.graph;
  status = RunSteps({plan_.n_constant, graph.empty() ? steps_.size() : graph.begin});
  if (__builtin_expect(!graph.empty(), 0)) {
    if (status == OW_OK) status = RunGraph(graph);
    if (status == OW_OK) status = RunSteps({graph.end, steps_.size()});
    has_run_ = has_run_ || status == OW_OK;
  }
  // This is done even after a failure, since earlier steps may have written.
  if (!plan_.writes.empty()) TouchWritten();
  return status;
}

}  // namespace opwright
