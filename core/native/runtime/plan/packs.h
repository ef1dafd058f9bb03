// Packed copies of variables; they are made once per version and shared by instances and plans.
#ifndef OPWRIGHT_RUNTIME_PACKS_H_
#define OPWRIGHT_RUNTIME_PACKS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "opwright/abi.h"
#include "runtime/device/device.h"
#include "runtime/values/scope.h"

namespace opwright {

// The packed form of one version of a variable, on the host; it is not overwritten while other
// instances or plans use it.
struct PackedCopy {
  std::shared_ptr<Storage> block;  // owns the memory of several copies
  void* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<ScopeVariable> variable;
  uint64_t version = 0;

  bool IsOf(const std::shared_ptr<ScopeVariable>& other, uint64_t other_version) const {
    return block && variable == other && version == other_version;
  }
};

// The packed copies that the instances of a plan share, by request index.
struct PlanPacks {
  std::mutex mutex;
  std::vector<PackedCopy> copies;  // guarded
};

// The packed copies of all plans. The copies are shared because kernels that are prepared for
// different shapes often pack a variable identically.
class PackStore {
 public:
  static PackStore& Get();
  // Returns a copy of the same variable and version with the same bytes, at an address with this
  // alignment; otherwise adds `copy` for later calls and returns it.
  PackedCopy Share(PackedCopy copy, uint64_t alignment);
  // The total size of the blocks that contain all copies.
  uint64_t bytes();

 private:
  struct Known {
    std::weak_ptr<Storage> block;
    void* data;
    uint64_t bytes;
    uint64_t version;
  };

  void ForgetFreed();

  std::mutex mutex_;
  std::unordered_multimap<const ScopeVariable*, Known> known_;  // guarded
  size_t next_sweep_ = 1024;  // guarded; number of known copies at which to remove freed ones
};

// The alignment of a packed copy, and its size including padding.
uint64_t PackAlignment(const ow_pack& wish);
uint64_t PackRoom(const ow_pack& wish);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PACKS_H_
