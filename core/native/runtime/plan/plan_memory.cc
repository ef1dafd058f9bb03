// The part of PlanBuilder that places values, such that values with overlapping lifetimes do not
// share memory.
#include <algorithm>
#include <limits>

#include "runtime/plan/plan_builder.h"

namespace opwright {

namespace {

// A block of the arena, and the first and last step that use it.
struct Block {
  uint64_t bytes = 0;
  size_t first = std::numeric_limits<size_t>::max();
  size_t last = 0;
  int64_t offset = 0;

  void Use(size_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
};

// The maximum number of packed blocks, since each block is compared with all earlier blocks;
// further blocks get separate memory.
constexpr size_t kMostPacked = 2048;

// Places blocks at `base` or above, largest first, each at the lowest offset that is free during
// its lifetime, and outputs their end. Returns false if the end exceeds 64 bits.
bool Pack(Block* const* begin, Block* const* end, uint64_t alignment, int64_t* base) {
  struct Placed {
    int64_t begin;
    int64_t end;
    const Block* block;
  };
  std::vector<Placed> placed;  // sorted by begin
  int64_t highest = *base;
  for (Block* const* next = begin; next != end; ++next) {
    Block& block = **next;
    int64_t size = 0;
    if (__builtin_add_overflow(block.bytes, alignment - 1, &size)) return false;
    size -= size % static_cast<int64_t>(alignment);
    int64_t at = *base;
    for (const Placed& other : placed) {
      if (other.block->first > block.last || other.block->last < block.first) continue;
      if (other.begin - at >= size) break;
      at = std::max(at, other.end);
    }
    block.offset = at;
    int64_t place_end = 0;
    if (__builtin_add_overflow(at, size, &place_end)) return false;
    highest = std::max(highest, place_end);
    const Placed made{at, place_end, &block};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), made,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        made);
  }
  *base = highest;
  return true;
}

std::vector<int64_t> ValuesOf(const PlanStep& step, const Plan& plan) {
  std::vector<int64_t> values;
  const auto add_child = [&values](const Child& child) {
    for (const auto& binding : child.bindings) values.push_back(binding.first);
  };
  if (step.prepared) {
    const auto begin = plan.args.begin() + static_cast<std::ptrdiff_t>(step.args_begin);
    values.assign(begin, begin + plan.n_args(step));
  } else if (const auto* copy = dynamic_cast<const CopyDetail*>(step.detail.get())) {
    values = {copy->source, copy->destination};
  } else if (const auto* call = dynamic_cast<const CallDetail*>(step.detail.get())) {
    add_child(call->child);
  } else if (const auto* branch = dynamic_cast<const BranchDetail*>(step.detail.get())) {
    values.push_back(branch->condition);
    for (const Child& child : branch->children) add_child(child);
  } else if (const auto* loop = dynamic_cast<const LoopDetail*>(step.detail.get())) {
    add_child(loop->body);
    for (const int64_t value : {loop->initial, loop->turns, loop->turns_taken}) {
      values.push_back(value);
    }
    for (const Carried& carried : loop->carried) values.push_back(carried.value);
    for (const auto* list : {&loop->sequences, &loop->stacks}) {
      for (const Elements& one : *list) values.push_back(one.value);
    }
  }
  return values;
}

}  // namespace

void PlanBuilder::PlanMemory(const std::vector<uint32_t>& kept) {
  Plan& plan = this->plan();
  const size_t n_steps = plan.steps.size();
  std::vector<Block> blocks(plan.values.size() + n_steps);  // values, then workspaces
  const auto block_of = [&](uint32_t value) -> Block* {
    const Value& info = plan.values[value];
    if (info.kind != ValueKind::kArena) return nullptr;
    if (info.index < 0 || static_cast<uint64_t>(info.index) >= plan.values.size()) {
      Fail("a block must be one of ", plan.values.size(), ", got ", info.index);
    }
    return &blocks[static_cast<size_t>(info.index)];
  };
  for (uint32_t i = 0; i < plan.values.size(); ++i) {
    Block* block = block_of(i);
    if (block != nullptr) block->bytes = std::max(block->bytes, plan.values[i].bytes);
  }
  for (size_t i = 0; i < n_steps; ++i) {
    for (const int64_t value : ValuesOf(plan.steps[i], plan)) {
      Block* block = value < 0 ? nullptr : block_of(static_cast<uint32_t>(value));
      if (block == nullptr) continue;
      block->Use(i);
      if (i < plan.n_constant) block->Use(n_steps);  // later runs read it as well
    }
    Block& workspace = blocks[plan.values.size() + i];
    workspace.bytes = plan.steps[i].workspace_bytes;
    workspace.Use(i);
  }
  for (const std::vector<uint32_t>* list :
       {&kept, static_cast<const std::vector<uint32_t>*>(&plan.fetches)}) {
    for (const uint32_t value : *list) {
      CheckedValue(value, "a kept value");
      Block* block = block_of(value);
      if (block != nullptr) block->Use(n_steps);
    }
  }
  std::vector<Block*> used;
  for (Block& block : blocks) {
    if (block.bytes != 0) used.push_back(&block);
  }
  std::stable_sort(used.begin(), used.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  const uint64_t alignment = plan.devices[0].device->alignment();
  int64_t end = 0;
  for (size_t i = 0; i < used.size(); i += kMostPacked) {
    const size_t count = std::min(kMostPacked, used.size() - i);
    if (!Pack(used.data() + i, used.data() + i + count, alignment, &end)) {
      CheckMemory(std::numeric_limits<uint64_t>::max());
    }
  }
  for (Value& value : plan.values) {
    if (value.kind == ValueKind::kArena)
      value.index = blocks[static_cast<size_t>(value.index)].offset;
  }
  for (size_t i = 0; i < n_steps; ++i) {
    plan.steps[i].workspace_offset = blocks[plan.values.size() + i].offset;
  }
  SetArena(static_cast<uint64_t>(end), nullptr);
}

}  // namespace opwright
