// The part of PlanBuilder that connects plans: children, continuations, and the final checks.
#include <algorithm>
#include <unordered_set>

#include "runtime/library/limits.h"
#include "runtime/plan/checked_steps.h"
#include "runtime/plan/plan_builder.h"
#include "runtime/plan/run.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Shorter plans do not wake sleeping threads, since waking takes 15 to 20 us on a virtual machine.
constexpr uint64_t kBriefNs = 80'000;

}  // namespace

void PlanBuilder::CheckBinding(uint32_t value, const Plan& child, uint32_t external) const {
  CheckedValue(value, "a binding");
  if (external >= child.externals.size() || child.externals[external].role != Role::kCaptured) {
    Fail("a binding needs a captured external of '", child.name, "', got ", external);
  }
  const Value& outer = plan().values[value];
  const External& captured = child.externals[external];
  const Value& inner = child.values[captured.values[0]];
  const bool same_place = plan().devices[outer.device].device == child.devices[inner.device].device;
  if (outer.kind == ValueKind::kDynamic || outer.kind == ValueKind::kNone ||
      outer.bytes != inner.bytes || !same_place) {
    Fail("'", captured.name, "' of '", child.name, "' needs ", inner.bytes,
         " bytes on its device, got ", outer.bytes);
  }
}

Child PlanBuilder::MakeChild(const std::shared_ptr<const Plan>& child, Bindings bindings,
                             const std::vector<uint32_t>& given) {
  if (!child->feeds.empty() || !child->fetches.empty()) {
    Fail("the child '", child->name,
         "' must have no feeds or fetches; bind captured values instead");
  }
  std::unordered_set<uint32_t> bound(given.begin(), given.end());
  for (const auto& [value, external] : bindings) {
    CheckBinding(value, *child, external);
    bound.insert(external);
  }
  for (uint32_t i = 0; i < child->externals.size(); ++i) {
    if (child->externals[i].role != Role::kCaptured || bound.count(i) != 0) continue;
    Fail("'", child->externals[i].name, "' of '", child->name, "' must be bound to a value");
  }
  Child made;
  made.plan = child;
  made.bindings = std::move(bindings);
  return made;
}

void PlanBuilder::AddChildStep(ow_run_fn run, int32_t op_index, std::shared_ptr<StepDetail> detail,
                               const std::vector<const Child*>& children, uint64_t repeats) {
  uint64_t estimate_ns = 0;
  bool needs_gil = false;
  for (const Child* child : children) {
    const_cast<Child*>(child)->slot = static_cast<uint32_t>(plan().children.size());
    plan().children.push_back(child);
    estimate_ns = std::max(estimate_ns, child->plan->estimate_ns);
    needs_gil = needs_gil || child->plan->needs_gil;
    plan().needs_scope = plan().needs_scope || child->plan->needs_scope;
    plan().n_python_steps += child->plan->n_python_steps;
  }
  PlanStep& step = AddStep(StepKind::kChild, run, op_index, std::move(detail));
  step.needs_gil = needs_gil;
  if (__builtin_mul_overflow(estimate_ns, repeats, &step.estimate_ns)) {
    step.estimate_ns = kMaxEstimateNs;
  }
}

void PlanBuilder::AddCall(const std::shared_ptr<const Plan>& child, Bindings bindings,
                          int32_t op_index) {
  auto detail = std::make_shared<CallDetail>();
  detail->child = MakeChild(child, std::move(bindings), {});
  const Child* made = &detail->child;
  AddChildStep(RunCall, op_index, std::move(detail), {made}, 1);
}

void PlanBuilder::CheckCondition(const Plan& owner, int64_t value) const {
  if (value < 0) return;
  const bool inside = static_cast<uint64_t>(value) < owner.values.size();
  const Value* found = inside ? &owner.values[static_cast<size_t>(value)] : nullptr;
  const bool is_bool = inside && found->bytes == 1 && found->dtype.code == kDLBool &&
                       found->kind != ValueKind::kNone;
  if (!is_bool) {
    Fail("a condition must be a one-element bool, got value ", value, " of '", owner.name, "'");
  }
}

void PlanBuilder::AddBranch(uint32_t condition,
                            std::pair<std::shared_ptr<const Plan>, Bindings> first,
                            std::pair<std::shared_ptr<const Plan>, Bindings> second,
                            int32_t op_index) {
  CheckCondition(plan(), condition);
  auto detail = std::make_shared<BranchDetail>();
  detail->condition = condition;
  detail->children[0] = MakeChild(first.first, std::move(first.second), {});
  detail->children[1] = MakeChild(second.first, std::move(second.second), {});
  const std::vector<const Child*> children = {&detail->children[0], &detail->children[1]};
  AddChildStep(RunBranch, op_index, std::move(detail), children, 1);
}

void PlanBuilder::AddContinuation(std::vector<uint32_t> values, ContinueDetail::Resolver resolve,
                                  std::vector<std::pair<uint32_t, std::string>> bindings) {
  auto detail = std::make_shared<ContinueDetail>();
  for (const uint32_t value : values) {
    if (CheckedValue(value, "a dynamic value").kind != ValueKind::kDynamic) {
      Fail("a continuation waits for dynamic values, got value ", value);
    }
  }
  for (const auto& binding : bindings) CheckedValue(binding.first, "a binding");
  detail->values = std::move(values);
  detail->resolve = std::move(resolve);
  detail->bindings = std::move(bindings);
  AddStep(StepKind::kContinue, RunContinue, -1, std::move(detail)).needs_gil = true;
  plan().has_continuation = true;
}

void PlanBuilder::CheckBlock(uint32_t device, int64_t index, uint64_t bytes,
                             const char* what) const {
  const DeviceMemory& memory = plan().devices[device];
  const auto position = static_cast<uint64_t>(index);
  bool inside = index >= 0;
  if (memory.device->has_arena()) {
    inside = inside && position <= memory.arena_bytes && bytes <= memory.arena_bytes - position;
  } else {
    inside = inside && position < memory.buffers.size() && bytes <= memory.buffers[position];
  }
  const uint64_t alignment = (plan().checks & kItemAligned) != 0 ? 1 : memory.device->alignment();
  if (inside && memory.device->has_arena() && bytes != 0 && position % alignment != 0) {
    Fail(what, " must be at a multiple of ", alignment, " bytes in the arena of ",
         memory.device->name(), ", got ", index);
  }
  if (!inside) {
    Fail(what, " must be in the memory of ", memory.device->name(), ", got ", bytes, " bytes at ",
         index);
  }
}

void PlanBuilder::CheckPlacement(const Value& value) const {
  if (value.kind == ValueKind::kArena && value.bytes != 0) {
    CheckBlock(value.device, value.index, value.bytes, "a value");
  }
}

void PlanBuilder::CheckExternals() const {
  for (const External& external : plan().externals) {
    const char* broken = nullptr;
    if (external.values.empty()) {
      broken = "an external needs a value";
    } else {
      const Value& first = plan().values[external.values[0]];
      const Device& device = *plan().devices[first.device].device;
      if (!device.is_host() && external.role == Role::kFetch) {
        broken = "fetch buffers must be on the host";
      }
      if (!device.is_host() && external.role == Role::kFeed) {
        if (first.device != 0) broken = "feeds must be on the host or the plan's device";
        if (!plan().has_device_feeds) broken = "a step must mark that feeds on a device are read";
      }
      if (!first.compact) broken = "the first value of an external must be compact";
      for (const uint32_t value : external.values) {
        const Value& other = plan().values[value];
        if (other.device != first.device || other.bytes > first.bytes) {
          broken = "the values of an external share its device and fit into the first one";
        }
      }
    }
    if (broken != nullptr) {
      Fail(broken, ", got '", external.name, "'");
    }
  }
}

// Whether instances of the plan own objects that only plugins can free: bound kernels, graphs,
// events.
bool PlanBuilder::HoldsBound() const {
  const auto is_outside = [](const DeviceMemory& memory) { return !memory.device->is_host(); };
  const auto binds = [](const PlanStep& step) {
    return step.prepared && step.prepared->kernel().bind != nullptr;
  };
  const auto child_holds = [](const Child* child) { return child->plan->holds_bound; };
  return std::any_of(plan().devices.begin(), plan().devices.end(), is_outside) ||
         std::any_of(plan().steps.begin(), plan().steps.end(), binds) ||
         std::any_of(plan().children.begin(), plan().children.end(), child_holds);
}

// Lists the externals of fetches. A value that is fetched twice has one buffer and is copied for
// the second fetch.
void PlanBuilder::ListFetchExternals() {
  std::vector<bool> is_fetched(plan().externals.size(), false);
  plan().fetch_externals.assign(plan().fetches.size(), -1);
  for (size_t i = 0; i < plan().fetches.size(); ++i) {
    const Value& value = plan().values[plan().fetches[i]];
    if (value.kind != ValueKind::kExternal) continue;
    const auto external = static_cast<size_t>(value.index);
    if (plan().externals[external].role != Role::kFetch || is_fetched[external]) continue;
    is_fetched[external] = true;
    plan().fetch_externals[i] = value.index;
  }
  for (size_t i = 0; i < is_fetched.size(); ++i) {
    if (plan().externals[i].role == Role::kFetch && !is_fetched[i]) {
      Fail("a fetch buffer must be fetched, got '", plan().externals[i].name, "', which is not");
    }
  }
}

std::shared_ptr<const Plan> PlanBuilder::Build(std::shared_ptr<void> describe,
                                               int64_t kernel_bytes) {
  Plan& plan = this->plan();
  plan.held_bytes = kernel_bytes + HeldBytes();
  for (const Value& value : plan.values) CheckPlacement(value);
  CheckExternals();
  for (const std::string& name : writes_) {
    const int64_t external = plan.FindExternal(Role::kPersistable, name);
    const int64_t fed = external < 0 ? plan.FindExternal(Role::kFeed, name) : -1;
    if (external >= 0) plan.writes.push_back(static_cast<uint32_t>(external));
    if (external >= 0) continue;
    const auto feed = std::find(plan.feeds.begin(), plan.feeds.end(), fed);
    if (feed == plan.feeds.end()) {
      Fail("writes names '", name, "', which is neither a persistable nor a feed of the plan");
    }
    plan.written_feeds.push_back(static_cast<uint32_t>(feed - plan.feeds.begin()));
  }
  bool is_shared = false;
  for (const PlanStep& step : plan.steps) {
    if (step.workspace_bytes != 0) {
      CheckBlock(step.device, step.workspace_offset, step.workspace_bytes, "a workspace");
    }
    for (const ow_pack& pack : step.prepared ? step.prepared->packs : std::vector<ow_pack>()) {
      const Value& value = plan.values[plan.args[step.args_begin + pack.arg]];
      const auto external = static_cast<uint32_t>(value.index);
      if (std::find(plan.writes.begin(), plan.writes.end(), external) != plan.writes.end()) {
        Fail("a packed variable must not be written, got '", plan.externals[external].name, "'");
      }
    }
    plan.needs_gil = plan.needs_gil || step.needs_gil;
    plan.estimate_ns += step.estimate_ns;
    is_shared = is_shared || (step.prepared && step.prepared->n_threads > 1);
  }
  plan.is_brief = is_shared && plan.estimate_ns < kBriefNs;
  ListFetchExternals();
  if (plan.has_continuation && !plan.fetches.empty()) {
    Fail("only the last plan of a chain can have fetches, got some before a continuation");
  }
  InsertSpans(&plan);
  plan.holds_bound = HoldsBound();
  plan.describe = std::move(describe);
  std::shared_ptr<const Plan> built = std::move(plan_);
  plan_ = nullptr;
  return built;
}

int64_t PlanBuilder::HeldBytes() const {
  // Measured sizes, including the Python data of each step and value for error messages.
  constexpr int64_t kOfPlan = 12 * 1024;
  constexpr int64_t kOfStep = 2048;
  constexpr int64_t kOfValue = 512;
  int64_t bytes = kOfPlan + kOfStep * static_cast<int64_t>(plan().steps.size()) +
                  kOfValue * static_cast<int64_t>(plan().values.size());
  for (const Child* child : plan().children) bytes += child->plan->held_bytes;
  return bytes;
}

}  // namespace opwright
