#include "runtime/plan/packs.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/border.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {

constexpr uint64_t kStorageAlignment = 64;  // minimum alignment of all memory of a device

void* AlignedAt(void* base, uint64_t offset, uint64_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(base) + offset;
  return reinterpret_cast<void*>((address + alignment - 1) & ~(alignment - 1));
}

}  // namespace

uint64_t PackAlignment(const ow_pack& wish) {
  return std::max<uint64_t>(wish.alignment, kStorageAlignment);
}

uint64_t PackRoom(const ow_pack& wish) {
  const uint64_t lines = (wish.bytes + kStorageAlignment - 1) / kStorageAlignment;
  return lines * kStorageAlignment + PackAlignment(wish) - kStorageAlignment;
}

PackStore& PackStore::Get() {
  static auto& store = *new PackStore;  // never destroyed, since plans may outlive statics
  return store;
}

// Removes the entries of freed variables, because these entries are never looked up again.
void PackStore::ForgetFreed() {
  for (auto place = known_.begin(); place != known_.end();) {
    place = place->second.block.expired() ? known_.erase(place) : std::next(place);
  }
  next_sweep_ = 2 * known_.size() + 1024;
}

PackedCopy PackStore::Share(PackedCopy copy, uint64_t alignment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto range = known_.equal_range(copy.variable.get());
  for (auto place = range.first; place != range.second;) {
    const std::shared_ptr<Storage> block = place->second.block.lock();
    const Known& known = place->second;
    if (!block || known.version != copy.version) {  // versions only rise
      place = known_.erase(place);
      continue;
    }
    const bool fits = known.bytes == copy.bytes &&
                      reinterpret_cast<uintptr_t>(known.data) % alignment == 0 &&
                      std::memcmp(known.data, copy.data, copy.bytes) == 0;
    if (fits) {
      copy.block = block;
      copy.data = known.data;
      return copy;
    }
    ++place;
  }
  if (known_.size() >= next_sweep_) ForgetFreed();
  known_.emplace(copy.variable.get(), Known{copy.block, copy.data, copy.bytes, copy.version});
  return copy;
}

uint64_t PackStore::bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unordered_map<const Storage*, uint64_t> blocks;
  for (const auto& [variable, known] : known_) {
    const std::shared_ptr<Storage> block = known.block.lock();
    if (block) blocks[block.get()] = block->bytes();
  }
  uint64_t bytes = 0;
  for (const auto& [block, size] : blocks) bytes += size;
  return bytes;
}

// Returns memory for the outdated copies: the plan's own memory, if no other plan or instance reads
// it, otherwise new memory.
std::shared_ptr<Storage> Instance::TakePackBlock(const std::vector<size_t>& outdated,
                                                 uint64_t bytes) {
  const std::vector<PackedCopy>& shared = plan_.packs().copies;
  std::shared_ptr<Storage> block;
  for (const size_t i : outdated) {
    if (shared[i].block) block = shared[i].block;
  }
  if (block && block->bytes() == bytes) {
    int64_t n_own = 1;  // `block` itself
    for (const size_t i : outdated) {
      n_own += (shared[i].block == block) + (packs_[i].copy.block == block);
    }
    if (block.use_count() == n_own) return block;
  }
  return MakeRetirable<Storage>(HostDevice(), bytes, plan_.name);
}

int32_t Instance::PackInto(PackSlot* slot, void* destination) noexcept {
  const ow_kernel& kernel = slot->prepared->kernel();
  slot->is_packed = false;
  const int32_t status = CallAtBorder(message_, sizeof(message_), [&] {
    return kernel.pack(&slot->step->call, slot->arg, slot->source, destination);
  });
  if (status == OW_OK) {
    slot->is_packed = true;
    return OW_OK;
  }
  const auto* handle = static_cast<const StepHandle*>(slot->step->call.run_handle);
  return Fail(handle->step, status);
}

// Places the packed copies contiguously in the order of use, because a large block consists of huge
// pages, which need fewer address translations.
int32_t Instance::PackTogether(const std::vector<size_t>& outdated) {
  std::vector<PackedCopy>& shared = plan_.packs().copies;
  uint64_t bytes = 0;
  for (const size_t i : outdated) bytes += PackRoom(packs_[i].wish);
  const std::shared_ptr<Storage> block = TakePackBlock(outdated, bytes);
  uint64_t used = 0;
  for (const size_t i : outdated) {
    PackSlot& slot = packs_[i];
    const std::shared_ptr<ScopeVariable>& variable = externals_[slot.external].variable;
    // The version is read before the copy so that the next run repacks after a concurrent write.
    const uint64_t version = variable->version();
    void* data = AlignedAt(block->handle(), used, PackAlignment(slot.wish));
    used += PackRoom(slot.wish);
    shared[i] = slot.copy = {};
    const int32_t status = PackInto(&slot, data);
    if (status != OW_OK) return status;
    shared[i] = PackStore::Get().Share({block, data, slot.wish.bytes, variable, version},
                                       PackAlignment(slot.wish));
  }
  return OW_OK;
}

int32_t Instance::PackShared() {
  PlanPacks& plan_packs = plan_.packs();
  // A thread that waits for this lock may hold the GIL, so the code below must not need the GIL.
  const std::lock_guard<std::mutex> lock(plan_packs.mutex);
  plan_packs.copies.resize(packs_.size());
  std::vector<size_t> outdated;
  for (size_t i = 0; i < packs_.size(); ++i) {
    if (!packs_[i].is_shared) continue;
    const std::shared_ptr<ScopeVariable>& variable = externals_[packs_[i].external].variable;
    if (!plan_packs.copies[i].IsOf(variable, variable->version())) outdated.push_back(i);
  }
  const int32_t status = outdated.empty() ? OW_OK : PackTogether(outdated);
  if (status != OW_OK) return status;
  for (size_t i = 0; i < packs_.size(); ++i) {
    PackSlot& slot = packs_[i];
    if (!slot.is_shared) continue;
    slot.copy = plan_packs.copies[i];
    slot.version = slot.copy.version;
    slot.is_packed = true;
    slot.packed.data = slot.copy.data;
  }
  return OW_OK;
}

}  // namespace opwright
