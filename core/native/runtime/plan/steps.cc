// Structural steps have the signature of a kernel's run, with a StepDetail as the state.
#include <algorithm>

#include "runtime/library/host.h"
#include "runtime/plan/structural.h"

namespace opwright {

namespace {

int32_t RunChild(Instance* parent, const Child& child) {
  Instance* instance = parent->child(child.slot);
  parent->BindCaptured(instance, child.bindings);
  return RunAsChild(instance, parent->state());
}

// Returns the chain's next plan for the current shapes, from the cache or the resolver.
std::shared_ptr<const ContinueDetail::Known> FindNext(ContinueDetail* detail,
                                                      std::vector<Shape> shapes,
                                                      bool bounds_memory) {
  constexpr size_t kMaxKnown = 8;
  {
    const std::lock_guard<std::mutex> lock(detail->mutex);
    auto& known = detail->known;
    for (size_t i = 0; i < known.size(); ++i) {
      if (known[i]->shapes != shapes) continue;
      std::rotate(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(i),
                  known.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return known[0];
    }
  }
  auto made = std::make_shared<ContinueDetail::Known>();
  made->plan = detail->resolve(shapes);
  if (!made->plan) return nullptr;
  if (bounds_memory) made->plan->BoundIdleMemory();
  made->shapes = std::move(shapes);
  for (const auto& [value, name] : detail->bindings) {
    const int64_t external = made->plan->FindExternal(Role::kCaptured, name);
    if (external >= 0) made->bindings.emplace_back(value, static_cast<uint32_t>(external));
  }
  std::shared_ptr<const ContinueDetail::Known> evicted;  // freed after the lock is released
  const std::lock_guard<std::mutex> lock(detail->mutex);
  detail->known.insert(detail->known.begin(), made);
  if (detail->known.size() > kMaxKnown) {
    evicted = std::move(detail->known.back());
    detail->known.pop_back();
  }
  return made;
}

// Checks that every captured value of the next plan is bound to a value of the same size.
void CheckCaptured(Instance* instance, const ContinueDetail::Known& known) {
  const Plan& next = *known.plan;
  size_t n_captured = 0;
  for (const External& external : next.externals) n_captured += external.role == Role::kCaptured;
  if (n_captured != known.bindings.size()) {
    Throw(ErrorKind::kProgram, next.name,
          ": every captured value must be bound by the previous plan, "
          "got ",
          known.bindings.size(), " of ", n_captured);
  }
  for (const auto& [value, external] : known.bindings) {
    const Value& wanted = next.values[next.externals[external].values[0]];
    const uint64_t bytes = SizeBytes(instance->Restored(value, instance->tensor(value)));
    if (bytes != wanted.bytes) {
      Throw(ErrorKind::kShape, next.name, ": ", next.externals[external].name, " must have ",
            wanted.bytes, " bytes, got ", bytes);
    }
  }
}

int32_t RunNext(Instance* instance, ContinueDetail* detail) {
  std::vector<Shape> shapes;
  for (const uint32_t value : detail->values) {
    const int64_t* dims = instance->dims(value);
    shapes.emplace_back(dims, dims + instance->plan().values[value].ndim);
  }
  const auto known = FindNext(detail, std::move(shapes), instance->plan().bounds_idle_memory());
  if (!known) return OW_ERROR;
  CheckCaptured(instance, *known);
  RunState* state = instance->state();
  const std::shared_ptr<Scope>& scope = *state->scope;
  Instance* next = nullptr;
  if (instance->timer() != nullptr) {
    next = instance->timer()->Next(known->plan);
  } else {
    Lease lease(known->plan, scope.get());
    next = lease.get();
    state->chain.push_back(std::move(lease));
  }
  BindProblem problem;
  if (!next->IsBound(scope.get()) && !next->Bind(scope, &problem)) {
    throw Error(problem.kind, problem.message);
  }
  next->SetSource(instance, &known->bindings);
  instance->BindCaptured(next, known->bindings);
  if (state->depth == 0) {
    if (state->hooks != nullptr) {
      const int32_t status = state->hooks->start(state, next);
      if (status != OW_OK) return status;
    }
    state->last = next;
  }
  const int32_t status = next->Run(state);
  next->SetSource(nullptr, &detail->no_bindings);
  return status;
}

}  // namespace

int32_t RunCopy(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  const auto& detail = DetailOf<CopyDetail>(call);
  const Plan& plan = instance.plan();
  const Value& source = plan.values[detail.source];
  const Value& destination = plan.values[detail.destination];
  Device& from = *plan.devices[source.device].device;
  Device& to = *plan.devices[destination.device].device;
  Device& device = from.is_host() ? to : from;
  void* stream = instance.stream(from.is_host() ? destination.device : source.device);
  const ow_error error = instance.error();
  const int32_t status =
      device.Copy(stream, instance.tensor(detail.destination).data, to.is_host(),
                  instance.tensor(detail.source).data, from.is_host(), source.bytes, &error);
  if (status != OW_OK || !to.is_host() || from.is_host()) return status;
  return device.Synchronize(stream, &error);
}

int32_t RunSync(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  const uint32_t device = DetailOf<SyncDetail>(call).device;
  const ow_error error = instance.error();
  return instance.plan().devices[device].device->Synchronize(instance.stream(device), &error);
}

int32_t RunPoll(const ow_call* call) { return Poll(InstanceOf(call).state()); }

int32_t RunRelease(const ow_call* call) {
  RunState* state = InstanceOf(call).state();
  if (state->hooks != nullptr && state->released++ == 0) state->hooks->release(state);
  return OW_OK;
}

int32_t RunAcquire(const ow_call* call) {
  RunState* state = InstanceOf(call).state();
  if (state->hooks != nullptr && --state->released == 0) state->hooks->acquire(state);
  return OW_OK;
}

int32_t RunCheck(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  for (const uint32_t value : DetailOf<CheckDetail>(call).values) {
    if (instance.WasResized(value)) continue;
    WriteMessage(call->message, call->message_bytes,
                 "a kernel must resize its dynamic outputs, got one without a shape");
    return OW_ERROR;
  }
  return OW_OK;
}

int32_t RunFeedsRead(const ow_call* call) { return InstanceOf(call).MarkFeedsRead(); }

int32_t RunCall(const ow_call* call) {
  return RunChild(&InstanceOf(call), DetailOf<CallDetail>(call).child);
}

int32_t RunBranch(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  const auto& detail = DetailOf<BranchDetail>(call);
  bool condition = false;
  const int32_t status = ReadCondition(&instance, detail.condition, instance.error(), &condition);
  if (status != OW_OK) return status;
  return RunChild(&instance, detail.children[condition ? 0 : 1]);
}

int32_t RunContinue(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  auto* detail = static_cast<ContinueDetail*>(static_cast<StepDetail*>(call->prepared));
  try {
    return RunNext(&instance, detail);
  } catch (const BindError& error) {
    instance.state()->bind_error = std::make_shared<const BindError>(error);
    return OW_ERROR;
  } catch (const std::exception& error) {
    WriteMessage(call->message, call->message_bytes, error.what());
    return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? OW_OUT_OF_MEMORY : OW_ERROR;
  }
}

}  // namespace opwright
