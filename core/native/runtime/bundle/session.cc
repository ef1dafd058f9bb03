#include "runtime/bundle/session.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/border.h"
#include "runtime/library/host.h"
#include "runtime/library/limits.h"
#include "runtime/plan/instance.h"
#include "runtime/threads/fork.h"

namespace opwright {

namespace {

const uint8_t* BeginOf(const DLTensor& tensor) {
  return static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
}

bool Overlap(const DLTensor& a, const DLTensor& b) {
  const uint64_t a_bytes = SizeBytes(a);
  const uint64_t b_bytes = SizeBytes(b);
  return a_bytes != 0 && b_bytes != 0 && BeginOf(a) < BeginOf(b) + b_bytes &&
         BeginOf(b) < BeginOf(a) + a_bytes;
}

// Checks that kernels can read a tensor: it must be compact, on the host, and aligned to the item.
void CheckMemory(const std::string& who, const Port& port, const DLTensor& tensor) {
  const char* broken = nullptr;
  Shape strides(static_cast<size_t>(tensor.ndim));
  FillRowMajorStrides(tensor.shape, tensor.ndim, strides.data());
  if (tensor.device.device_type != kDLCPU) broken = "must be on the CPU";
  const bool has_elements = !IsEmpty(tensor.shape, tensor.ndim);
  for (size_t i = 0; i < strides.size() && tensor.strides != nullptr && has_elements; ++i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != strides[i]) broken = "must be contiguous";
  }
  if (has_elements && tensor.data == nullptr) broken = "must have memory, got NULL";
  const auto address = reinterpret_cast<uintptr_t>(BeginOf(tensor));
  if (has_elements && address % static_cast<uintptr_t>(ItemSize(tensor.dtype)) != 0) {
    broken = "must start at a multiple of the item size";
  }
  if (broken != nullptr) Throw(ErrorKind::kFeed, who, ": ", port.Text(), " ", broken);
}

int32_t PollCancelled(RunState* state) {
  return static_cast<const Session*>(state->user)->is_cancelled() ? OW_ERROR : OW_OK;
}

constexpr RunHooks kHooks = {[](RunState*) {}, [](RunState*) {}, PollCancelled,
                             [](RunState*, Instance*) -> int32_t { return OW_OK; },
                             [](RunState*, char*, uint64_t) -> int32_t { return OW_OK; }};

}  // namespace

std::string DescribeFailure(const RunState& state) {
  std::string type;
  for (const PlanStep& step : state.failed_plan->steps) {
    if (step.op_index == state.failed_op && step.prepared) type = step.prepared->op_type + ": ";
  }
  const bool lacks_memory = state.status == OW_OUT_OF_MEMORY && state.message.empty();
  return Concat(type, "operator ", state.failed_op, " failed, got ",
                lacks_memory ? "no memory" : state.message);
}

// Returns the number of threads in a string that ends at `stop` or at its end, or 0 if it is
// invalid.
static int32_t ParseThreads(const char* text, char stop) {
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  const bool is_valid = (*end == '\0' || *end == stop) && number >= 1 && number <= kMaxThreads;
  return is_valid ? static_cast<int32_t>(number) : 0;
}

int32_t ThreadsOfProcess() {
  if (ForkCount() != 0) return 1;
  const int32_t chosen = ChosenThreads();
  if (chosen != 0) return chosen;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  int32_t count = 1;
  if (sched_getaffinity(0, sizeof(processors), &processors) == 0) count = CPU_COUNT(&processors);
  const char* text = std::getenv("OPWRIGHT_NUM_THREADS");
  const char* openmp = std::getenv("OMP_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    count = ParseThreads(text, '\0');
    if (count == 0) {
      Throw(ErrorKind::kProgram, "OPWRIGHT_NUM_THREADS: must be a number from 1 to ", kMaxThreads,
            ", got '", text, "'; leave it unset to use every CPU of the process");
    }
  } else if (openmp != nullptr) {
    const int32_t outermost = ParseThreads(openmp, ',');
    if (outermost != 0) count = outermost;
  }
  LimitThreads(std::min(count, kMaxThreads));
  return ChosenThreads();
}

class Session::Busy {
 public:
  explicit Busy(Session* session) : session_(*session) {
    if (session_.is_busy_.exchange(true)) {
      Throw(ErrorKind::kProgram, session_.bundle_->who(),
            ": a session must run once at a time, got a second run; make a session for each "
            "thread");
    }
  }
  ~Busy() { session_.is_busy_.store(false); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Session& session_;
};

void Session::Warm(int64_t batch) {
  const Busy busy(this);
  const std::shared_ptr<const Plan> plan = bundle_->PlanFor(batch, ThreadsOfProcess());
  BindProblem problem;
  const Lease lease(plan, scope_.get());
  if (!lease->IsBound(scope_.get()) && !lease->Bind(scope_, &problem)) {
    throw Error(problem.kind, problem.message);
  }
}

void Session::CheckOutputs(const Tensors& inputs, const Tensors& outputs, int64_t batch) const {
  const std::string& who = bundle_->who();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Port& port = bundle_->outputs()[i];
    const DLTensor& tensor = *outputs[i];
    const Shape shape = port.At(batch);
    if (!SameDtype(tensor.dtype, port.dtype) || static_cast<size_t>(tensor.ndim) != shape.size() ||
        !std::equal(shape.begin(), shape.end(), tensor.shape)) {
      Throw(ErrorKind::kFeed, who, ": must be given memory for ", port.Text(), " with n=", batch,
            ", got ", DtypeName(tensor.dtype), ShapeText(tensor.shape, tensor.ndim));
    }
    CheckMemory(who, port, tensor);
    const auto overlaps = [&tensor](const DLTensor* other) { return Overlap(tensor, *other); };
    const auto end = outputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(inputs.begin(), inputs.end(), overlaps) ||
        std::any_of(outputs.begin(), end, overlaps)) {
      Throw(ErrorKind::kFeed, who, ": ", port.Text(),
            " must have its own memory, got some of "
            "an input or of another output");
    }
  }
}

void Session::Run(const Tensors& inputs, const Tensors& outputs) {
  const Busy busy(this);
  is_cancelled_.store(false, std::memory_order_relaxed);
  if (inputs.size() != bundle_->inputs().size() || outputs.size() != bundle_->outputs().size()) {
    Throw(ErrorKind::kFeed, bundle_->who(), ": must be given ", bundle_->inputs().size(),
          " inputs and ", bundle_->outputs().size(), " outputs, got ", inputs.size(), " and ",
          outputs.size());
  }
  const int64_t batch = bundle_->BatchOf(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckMemory(bundle_->who(), bundle_->inputs()[i], *inputs[i]);
  }
  CheckOutputs(inputs, outputs, batch);
  RunPlan(bundle_->PlanFor(batch, ThreadsOfProcess()), inputs, outputs);
}

void Session::RunPlan(const std::shared_ptr<const Plan>& plan, const Tensors& inputs,
                      const Tensors& outputs) {
  FreeRetired();
  const Lease lease(plan, scope_.get());
  Instance* instance = lease.get();
  BindProblem problem;
  if (!instance->IsBound(scope_.get()) && !instance->Bind(scope_, &problem)) {
    throw Error(problem.kind, problem.message);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    instance->SetExternal(plan->feeds[i], const_cast<uint8_t*>(BeginOf(*inputs[i])), nullptr);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t external = plan->fetch_externals[i];
    if (external < 0) continue;
    instance->SetExternal(static_cast<uint32_t>(external),
                          const_cast<uint8_t*>(BeginOf(*outputs[i])), nullptr);
  }
  RunState state;
  state.hooks = &kHooks;
  state.user = this;
  state.scope = &scope_;
  state.last = instance;
  int32_t status = OW_OK;
  {
    const InsidePlugin inside;
    status = instance->Run(&state);
  }
  if (status != OW_OK) {
    if (is_cancelled() && status != OW_OUT_OF_MEMORY) throw Cancelled(bundle_->who());
    throw Error(status == OW_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kKernel,
                Concat(bundle_->who(), ": ", DescribeFailure(state)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (plan->fetch_externals[i] >= 0) continue;
    const uint64_t bytes = SizeBytes(*outputs[i]);
    const void* source = instance->tensor(plan->fetches[i]).data;
    if (bytes != 0) std::memcpy(const_cast<uint8_t*>(BeginOf(*outputs[i])), source, bytes);
  }
}

// Returns a variable that has the dtype and shape of `value`.
std::shared_ptr<const Tensor> Session::FindState(const std::string& name,
                                                 const DLTensor& value) const {
  const std::string& who = bundle_->who();
  const auto& written = bundle_->written();
  if (std::find(written.begin(), written.end(), name) == written.end()) {
    std::string listed;
    for (const std::string& one : written) listed += Concat(listed.empty() ? "" : ", ", one);
    Throw(ErrorKind::kVariableNotFound, who, ": a session has the variables that runs write, got '",
          name, "', of ", listed.empty() ? "none" : listed);
  }
  const std::shared_ptr<ScopeVariable> variable = scope_->FindVar(name);
  std::shared_ptr<const Tensor> tensor = variable ? variable->tensor() : nullptr;
  if (!tensor) {
    Throw(ErrorKind::kVariableNotFound, who, ": '", name, "' must be made by a run, got none yet");
  }
  if (!tensor->HasMeta(value.dtype, value.shape, value.ndim)) {
    Throw(ErrorKind::kShape, who, ": '", name, "' must be ", DtypeName(tensor->dtype),
          ShapeText(tensor->shape), ", got ", DtypeName(value.dtype),
          ShapeText(value.shape, value.ndim));
  }
  CheckMemory(who, {name, tensor->dtype, {}}, value);
  return tensor;
}

void Session::GetState(const std::string& name, const DLTensor& value) {
  const Busy busy(this);
  const std::shared_ptr<const Tensor> tensor = FindState(name, value);
  if (tensor->bytes() == 0) return;
  std::memcpy(const_cast<uint8_t*>(BeginOf(value)), tensor->data(), tensor->bytes());
}

void Session::SetState(const std::string& name, const DLTensor& value) {
  const Busy busy(this);
  const std::shared_ptr<const Tensor> tensor = FindState(name, value);
  if (tensor->bytes() != 0) std::memcpy(tensor->data(), BeginOf(value), tensor->bytes());
  scope_->FindVar(name)->Touch();
}

}  // namespace opwright
