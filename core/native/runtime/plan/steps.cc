// The structural steps: they have the form of a kernel's run, and their detail for its state.
#include <algorithm>

#include "runtime/library/host.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {

constexpr uint64_t kPollIntervalNs = 1'000'000;
// A loop whose body has no estimate still looks for Ctrl-C now and then.
constexpr uint64_t kLeastIterationNs = 1'000;

Instance& InstanceOf(const ow_call* call) {
  return *static_cast<const StepHandle*>(call->run_handle)->instance;
}

template <typename Detail>
const Detail& DetailOf(const ow_call* call) {
  // The frame's `prepared` is what the plan's step holds as StepDetail*.
  return *static_cast<const Detail*>(static_cast<const StepDetail*>(call->prepared));
}

int32_t Poll(RunState* state) {
  return state->hooks == nullptr ? OW_OK : state->hooks->poll(state);
}

// Reads a one-element bool, from wherever it lives.
int32_t ReadCondition(Instance* instance, uint32_t value, const ow_error& error, bool* result) {
  const DLTensor& tensor = instance->tensor(value);
  const uint32_t index = instance->plan().values[value].device;
  Device& device = *instance->plan().devices[index].device;
  if (device.is_host()) {
    *result = *static_cast<const uint8_t*>(tensor.data) != 0;
    return OW_OK;
  }
  uint8_t byte = 0;
  void* stream = instance->stream(index);
  int32_t status = device.Copy(stream, &byte, true, tensor.data, false, 1, &error);
  if (status == OW_OK) status = device.Synchronize(stream, &error);
  *result = byte != 0;
  return status;
}

int32_t RunChild(Instance* parent, const Child& child) {
  Instance* instance = parent->child(child.slot);
  parent->BindCaptured(instance, child.bindings);
  return instance->Run(parent->state());
}

// Moves what the body wrote to where it reads next, which is the parent's value.
int32_t CarryOver(Instance* parent, Instance* body, const LoopDetail& loop) {
  const ow_error error = parent->error();
  const auto copy = [&](uint32_t value, void* destination, const void* source) -> int32_t {
    if (destination == source) return OW_OK;
    const Value& info = parent->plan().values[value];
    Device& device = *parent->plan().devices[info.device].device;
    return device.Copy(parent->stream(info.device), destination, device.is_host(), source,
                       device.is_host(), info.bytes, &error);
  };
  int32_t status = OW_OK;
  for (size_t i = 0; status == OW_OK && i < loop.carried.size(); ++i) {
    if (loop.staging[i] < 0) continue;
    status = copy(loop.carried[i].value, parent->staging(loop.staging[i])->handle(),
                  body->tensor(loop.carried[i].next).data);
  }
  for (size_t i = 0; status == OW_OK && i < loop.carried.size(); ++i) {
    const Carried& carried = loop.carried[i];
    const void* source = loop.staging[i] < 0 ? body->tensor(carried.next).data
                                             : parent->staging(loop.staging[i])->handle();
    status = copy(carried.value, parent->tensor(carried.value).data, source);
  }
  return status;
}

// The chain's next plan for the shapes found: known, or asked for.
std::shared_ptr<const ContinueDetail::Known> FindNext(ContinueDetail* detail,
                                                      std::vector<Shape> shapes) {
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
  made->shapes = std::move(shapes);
  for (const auto& [value, name] : detail->bindings) {
    const int64_t external = made->plan->FindExternal(Role::kCaptured, name);
    if (external >= 0) made->bindings.emplace_back(value, static_cast<uint32_t>(external));
  }
  std::shared_ptr<const ContinueDetail::Known> evicted;  // freed after the lock is given back
  const std::lock_guard<std::mutex> lock(detail->mutex);
  detail->known.insert(detail->known.begin(), made);
  if (detail->known.size() > kMaxKnown) {
    evicted = std::move(detail->known.back());
    detail->known.pop_back();
  }
  return made;
}

// Every captured value of the next plan must be bound to a value of the same size.
void CheckCaptured(Instance* instance, const ContinueDetail::Known& known) {
  const Plan& next = *known.plan;
  size_t n_captured = 0;
  for (const External& external : next.externals) n_captured += external.role == Role::kCaptured;
  if (n_captured != known.bindings.size()) {
    Throw(ErrorKind::kProgram, next.name,
          ": every captured value must be bound by the plan before, "
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
  const auto known = FindNext(detail, std::move(shapes));
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
  if (state->hooks != nullptr) {
    const int32_t status = state->hooks->start(state, next);
    if (status != OW_OK) return status;
  }
  state->last = next;
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

int32_t RunLoop(const ow_call* call) {
  Instance& instance = InstanceOf(call);
  const auto& loop = DetailOf<LoopDetail>(call);
  Instance* body = instance.child(loop.body.slot);
  instance.BindCaptured(body, loop.body.bindings);
  for (const Carried& carried : loop.carried) {
    body->SetExternal(carried.external, instance.tensor(carried.value).data, nullptr);
  }
  const uint64_t iteration_ns = std::max(body->plan().estimate_ns, kLeastIterationNs);
  const ow_error error = instance.error();
  uint64_t since_poll_ns = 0;
  bool again = true;
  int32_t status = OW_OK;
  if (loop.initial >= 0) {
    status = ReadCondition(&instance, static_cast<uint32_t>(loop.initial), error, &again);
  }
  for (int64_t i = 0; status == OW_OK && again; ++i) {
    if (i == loop.max_iterations) {
      if (loop.condition < 0) break;
      const std::string text =
          Concat("the loop must end within ", loop.max_iterations,
                 " iterations, got a condition that still holds; raise max_iterations");
      WriteMessage(call->message, call->message_bytes, text.c_str());
      return OW_ERROR;
    }
    status = body->Run(instance.state());
    // Read before the carried values move: it may be one of them.
    if (status == OW_OK && loop.condition >= 0) {
      status = ReadCondition(body, static_cast<uint32_t>(loop.condition), error, &again);
    }
    if (status == OW_OK) status = CarryOver(&instance, body, loop);
    since_poll_ns += iteration_ns;
    if (status == OW_OK && since_poll_ns >= kPollIntervalNs) {
      status = Poll(instance.state());
      since_poll_ns = 0;
    }
  }
  return status;
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
