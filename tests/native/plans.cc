#include "plans.h"

#include <cstring>
#include <utility>

#include "check.h"

namespace plans {

std::shared_ptr<opwright::Prepared> Prepare(const char* name, size_t n_inputs, size_t n_outputs,
                                            const Shape& shape, double factor) {
  opwright::PrepareRequest request;
  request.device = opwright::HostDevice();
  request.inputs.assign(n_inputs, {{shape, kFloat32}});
  request.outputs.assign(n_outputs, {{shape, kFloat32}});
  ow_attr attr{};
  attr.size = sizeof(attr);
  attr.name = "factor";
  attr.type = OW_ATTR_FLOAT;
  attr.count = 1;
  attr.float_value = factor;
  request.attrs = {attr};
  return opwright::PrepareNative(find_kernel(name), request, nullptr);
}

Maker::Maker(const char* name, Shape shape)
    : builder(opwright::HostDevice(), name), shape_(std::move(shape)) {}

uint32_t Maker::Outside(Role role, const char* name, DLDataType dtype, bool create) {
  const uint32_t external = builder.AddExternal(role, name, create);
  const uint32_t value =
      builder.AddValue(dtype, shape_, opwright::ValueKind::kExternal, external, nullptr, nullptr);
  if (role == Role::kFetch) builder.AddFetch(value);
  return value;
}

uint32_t Maker::Temp(DLDataType dtype, const Shape& shape) {
  const auto offset = static_cast<int64_t>(space_);
  space_ += 64;
  builder.SetArena(space_, nullptr);
  return builder.AddValue(dtype, shape, opwright::ValueKind::kArena, offset, nullptr, nullptr);
}

uint32_t Maker::Dynamic(DLDataType dtype) {
  return builder.AddValue(dtype, {-1}, opwright::ValueKind::kDynamic, 0, nullptr, nullptr);
}

void Maker::Kernel(std::shared_ptr<opwright::Prepared> prepared, std::vector<uint32_t> inputs,
                   std::vector<uint32_t> outputs, uint64_t estimate_ns) {
  opwright::KernelRequest request;
  request.n_inputs = static_cast<uint32_t>(inputs.size());
  request.args = std::move(inputs);
  request.args.insert(request.args.end(), outputs.begin(), outputs.end());
  for (uint32_t i = 0; i <= request.args.size(); ++i) request.slot_begin.push_back(i);
  request.op_index = n_ops_++;
  request.estimate_ns = estimate_ns;
  if (prepared->workspace_bytes != 0) {
    request.workspace_offset = static_cast<int64_t>(space_);
    request.workspace_bytes = prepared->workspace_bytes;
    space_ += (prepared->workspace_bytes + 63) / 64 * 64;
    builder.SetArena(space_, nullptr);
  }
  request.prepared = std::move(prepared);
  builder.AddKernel(std::move(request));
}

void Maker::Kernel(const char* name, const std::vector<uint32_t>& inputs,
                   const std::vector<uint32_t>& outputs, uint64_t estimate_ns) {
  Kernel(Prepare(name, inputs.size(), outputs.size(), shape_), inputs, outputs, estimate_ns);
}

Outcome Run(const std::shared_ptr<const opwright::Plan>& plan,
            const std::shared_ptr<opwright::Scope>& scope, std::vector<std::vector<float>> feeds,
            const opwright::RunHooks* hooks) {
  const opwright::Lease lease(plan, scope.get());
  return RunOn(lease.get(), scope, std::move(feeds), hooks);
}

Outcome RunOn(opwright::Instance* instance, const std::shared_ptr<opwright::Scope>& scope,
              std::vector<std::vector<float>> feeds, const opwright::RunHooks* hooks) {
  const opwright::Plan* plan = &instance->plan();
  opwright::RunState state;
  state.hooks = hooks;
  state.scope = &scope;
  opwright::BindProblem problem;
  if (!instance->IsBound(scope.get()) && !instance->Bind(scope, &problem)) {
    throw opwright::Error(problem.kind, problem.message);
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    instance->SetExternal(plan->feeds[i], feeds[i].data(), nullptr);
  }
  std::vector<std::vector<float>> buffers;
  for (uint32_t i = 0; i < plan->externals.size(); ++i) {
    const opwright::External& external = plan->externals[i];
    if (external.role != Role::kFetch) continue;
    const uint64_t bytes = plan->values[external.values[0]].bytes;
    buffers.emplace_back(bytes / sizeof(float));
    instance->SetExternal(i, buffers.back().data(), nullptr);
  }
  state.last = instance;
  const int32_t status = instance->Run(&state);
  Outcome outcome{status, state.failed_op, state.message, {}};
  if (status != OW_OK) return outcome;
  for (const uint32_t value : state.last->plan().fetches) {
    const DLTensor& tensor = state.last->tensor(value);
    std::vector<float> copy(static_cast<size_t>(opwright::Numel(tensor)));
    if (!copy.empty()) std::memcpy(copy.data(), tensor.data, copy.size() * sizeof(float));
    outcome.fetches.push_back(std::move(copy));
  }
  return outcome;
}

void SetVariable(opwright::Scope* scope, const char* name, int64_t n, float value) {
  auto tensor = opwright::MakeTensor(opwright::HostDevice(), kFloat32, {n}, name);
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(tensor->data())[i] = value;
  scope->Var(name)->Replace(std::move(tensor));
}

float FirstOf(const opwright::Scope& scope, const char* name) {
  return static_cast<const float*>(scope.FindVar(name)->tensor()->data())[0];
}

}  // namespace plans
