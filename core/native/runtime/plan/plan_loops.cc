// The part of PlanBuilder that builds loops.
#include <utility>

#include "runtime/plan/plan_builder.h"
#include "runtime/plan/run.h"
#include "runtime/status.h"

namespace opwright {

namespace {
// The assumed number of iterations of an unlimited loop, to place the steps for the GIL and
// signals.
constexpr uint64_t kGuessedIterations = 100;
}  // namespace

int64_t PlanBuilder::AddStaging(uint32_t device, uint64_t bytes) {
  plan().staging.push_back({device, bytes});
  return static_cast<int64_t>(plan().staging.size()) - 1;
}

void PlanBuilder::CheckCarried(const LoopRequest& request) const {
  const Plan& body = *request.body;
  for (const Carried& carried : request.carried) {
    CheckBinding(carried.value, body, carried.external);
    const bool inside =
        carried.next < body.values.size() && body.values[carried.next].kind != ValueKind::kNone;
    if (!inside || body.values[carried.next].bytes != plan().values[carried.value].bytes) {
      Fail("a carried value must keep its size, got value ", carried.next, " of the body");
    }
  }
}

// Checks the values that contain iteration counts, which are read or written at run time.
void PlanBuilder::CheckTurns(const LoopRequest& request) const {
  CheckCondition(*request.body, request.condition);
  CheckCondition(plan(), request.initial);
  const bool is_counted = request.turns >= 0 || request.reverse || !request.sequences.empty();
  if (request.max_iterations < 0 && (request.condition < 0 || is_counted)) {
    Fail("a loop needs a condition or a number of iterations, got neither");
  }
  if (request.condition >= 0 && is_counted) {
    Fail("a loop with a condition reads no sequences, got some, an iteration count, or reverse");
  }
  for (const int64_t number : {request.turns, request.turns_taken}) {
    if (number < 0) continue;
    const Value& value = CheckedValue(static_cast<uint32_t>(number), "an iteration count");
    if (value.bytes != sizeof(int64_t) || value.dtype.code != kDLInt ||
        value.kind == ValueKind::kNone) {
      Fail("an iteration count must be a one-element int64, got value ", number);
    }
  }
}

// Checks an array with one element per iteration of an unlimited loop.
void PlanBuilder::CheckGrowing(const Elements& one, const Value& array,
                               const Value& element) const {
  const int64_t* dims = plan().dims.data() + array.dims_begin;
  bool fits = array.kind == ValueKind::kDynamic && array.ndim > 0 && dims[0] < 0;
  auto bytes = static_cast<uint64_t>(ItemSize(array.dtype));
  for (int32_t i = 1; fits && i < array.ndim; ++i) {
    fits = dims[i] >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(dims[i]), &bytes);
  }
  if (!fits || bytes != one.bytes || one.offset != 0 || !element.compact) {
    Fail("a loop without a limit adds to arrays of elements of ", one.bytes,
         " bytes, whose first dim alone is unknown, got value ", one.value);
  }
}

// Kernels on the host accept elements at any address; on other devices unaligned elements are
// staged, and the device must have addresses within its buffers.
void PlanBuilder::AddElements(const Plan& body, int64_t turns, std::vector<Elements>* list) {
  for (Elements& one : *list) {
    if (one.external >= body.externals.size() ||
        body.externals[one.external].role != Role::kCaptured) {
      Fail("an element needs a captured external of '", body.name, "', got ", one.external);
    }
    const Value& element = body.values[body.externals[one.external].values[0]];
    const std::shared_ptr<Device>& device = body.devices[element.device].device;
    one.bytes = element.bytes;
    if (one.value < 0) {
      one.staging = AddStaging(DeviceIndex(device), one.bytes);
      continue;
    }
    const Value& array = CheckedValue(static_cast<uint32_t>(one.value), "an array of elements");
    if (turns < 0 && plan().devices[array.device].device == device) {
      CheckGrowing(one, array, element);
      if (!device->is_host()) one.staging = AddStaging(array.device, one.bytes);
      continue;
    }
    uint64_t bytes = 0;
    const bool fits = turns >= 0 &&
                      !__builtin_mul_overflow(one.bytes, static_cast<uint64_t>(turns), &bytes) &&
                      one.offset <= array.bytes && bytes <= array.bytes - one.offset &&
                      array.compact && element.compact;
    if (!fits || array.kind == ValueKind::kNone || array.kind == ValueKind::kDynamic ||
        plan().devices[array.device].device != device) {
      Fail("an array must hold ", turns, " elements of ", one.bytes, " bytes from byte ",
           one.offset, " on, on their device, got ", array.bytes, " bytes in value ", one.value);
    }
    if (!device->addressable() && one.bytes != 0) {
      Fail("elements of an array need a device with addresses, got ", device->name());
    }
    const bool is_aligned = one.bytes % device->alignment() == 0 &&
                            one.offset % device->alignment() == 0 && device->has_arena() &&
                            array.kind == ValueKind::kArena;
    if (!device->is_host() && !is_aligned) one.staging = AddStaging(array.device, one.bytes);
  }
}

void PlanBuilder::AddLoop(LoopRequest request) {
  const Plan& body = *request.body;
  if (body.has_continuation) {
    Fail("the body of a loop must be one plan, got '", body.name, "', which others continue");
  }
  CheckCarried(request);
  CheckTurns(request);
  AddElements(body, request.max_iterations, &request.sequences);
  AddElements(body, request.max_iterations, &request.stacks);
  std::vector<uint32_t> given;
  for (const Carried& carried : request.carried) given.push_back(carried.external);
  for (const auto* list : {&request.sequences, &request.stacks}) {
    for (const Elements& one : *list) given.push_back(one.external);
  }
  auto detail = std::make_shared<LoopDetail>();
  detail->body = MakeChild(request.body, std::move(request.bindings), given);
  for (const Carried& carried : request.carried) {
    const Value& value = plan().values[carried.value];
    const bool is_outside = body.values[carried.next].kind == ValueKind::kExternal;
    detail->staging.push_back(is_outside ? AddStaging(value.device, value.bytes) : -1);
  }
  detail->condition = request.condition;
  detail->initial = request.initial;
  detail->max_iterations = request.max_iterations;
  detail->carried = std::move(request.carried);
  detail->sequences = std::move(request.sequences);
  detail->stacks = std::move(request.stacks);
  detail->turns = request.turns;
  detail->turns_taken = request.turns_taken;
  detail->reverse = request.reverse;
  const uint64_t repeats = request.max_iterations >= 0
                               ? static_cast<uint64_t>(request.max_iterations)
                               : kGuessedIterations;
  const Child* child = &detail->body;
  AddChildStep(RunLoop, request.op_index, std::move(detail), {child}, repeats);
}

}  // namespace opwright
