// The table of plans that eager operators, networks and models may rerun.
//
// The number of plans and their bytes are bounded for the whole process. An owner finds its own
// plans without inspecting other owners' plans. The GIL protects the table.
#ifndef OPWRIGHT_PYTHON_PLAN_TABLE_H_
#define OPWRIGHT_PYTHON_PLAN_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/call/intake.h"
#include "runtime/plan/plan.h"

namespace opwright {

// The key of a plan within the plans of one owner.
struct PlanKey {
  std::vector<FeedMeta> metas;  // metas of the values of a call
  std::vector<int32_t> counts;  // per input of an eager operator: -1 absent, -2 one, or list length
  py::object rest;              // a frozen tuple of attributes, or the key of `Plans.add`
};

struct PlanEntry {
  PlanKey key;
  uint64_t hash = 0;
  std::shared_ptr<const Plan> plan;
  py::object lowered;           // Python's data about the plan; may be null
  py::object handed;            // returned after the results; usually null
  std::vector<uint32_t> order;  // the value for each feed external; empty if in order
  std::shared_ptr<const Epoch> epoch;
  uint64_t made_at = 0;  // the epoch when its creation began
  uint64_t last_used = 0;
  int64_t bytes = 0;
  int64_t n_references =
      0;  // guarded by the GIL, since an atomic count would take a tenth of a small call

  bool IsCurrent() const { return epoch->now() == made_at; }
};

// A counted reference to an entry.
class EntryPtr {
 public:
  EntryPtr() = default;
  explicit EntryPtr(PlanEntry* entry) : entry_(entry) { ++entry_->n_references; }
  EntryPtr(const EntryPtr& other) : entry_(other.entry_) {
    if (entry_ != nullptr) ++entry_->n_references;
  }
  EntryPtr(EntryPtr&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  EntryPtr& operator=(EntryPtr other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~EntryPtr() {
    if (entry_ != nullptr && --entry_->n_references == 0) delete entry_;
  }
  static EntryPtr Make() { return EntryPtr(new PlanEntry); }

  PlanEntry* get() const { return entry_; }
  PlanEntry* operator->() const { return entry_; }
  PlanEntry& operator*() const { return *entry_; }
  explicit operator bool() const { return entry_ != nullptr; }
  bool operator==(const EntryPtr& other) const { return entry_ == other.entry_; }
  bool operator!=(const EntryPtr& other) const { return entry_ != other.entry_; }

 private:
  PlanEntry* entry_ = nullptr;
};

// The plans of one owner.
class PlanSet {
 public:
  using Entries = std::unordered_multimap<uint64_t, EntryPtr>;

  // `label` is the owner's name in `memory`. With `keeps_last`, the memory of the plan that ran
  // last is kept, whatever its size.
  PlanSet(std::string label, bool keeps_last);
  ~PlanSet();
  PlanSet(const PlanSet&) = delete;
  PlanSet& operator=(const PlanSet&) = delete;

  // Returns the current entry that `matches`, or null. `hash` is computed only if the last entry
  // does not match.
  template <typename Matches, typename Hash>
  EntryPtr Find(const Matches& matches, const Hash& hash) {
    if (last_ && last_->IsCurrent() && matches(*last_)) return Use(last_);
    const auto range = entries_.equal_range(hash());
    for (auto place = range.first; place != range.second; ++place) {
      const EntryPtr& entry = place->second;
      if (entry->IsCurrent() && matches(*entry)) return Use(entry);
    }
    return {};
  }
  // Returns the last entry, which must exist, and marks it as used now.
  EntryPtr UseLast() {
    last_->last_used = ++clock;
    return last_;
  }
  // Adds an entry as the most recently used entry. Drops `replaced`, outdated entries and, if the
  // table exceeds its bounds, the least recently used entries.
  void Add(EntryPtr entry, const PlanEntry* replaced);
  void Clear();

  size_t size() const { return entries_.size(); }
  const std::string& label() const { return label_; }
  const EntryPtr& last() const { return last_; }
  int64_t bytes() const;
  int64_t idle_bytes() const;
  const Entries& entries() const { return entries_; }

 private:
  friend class PlanTable;
  EntryPtr Use(EntryPtr entry) {
    entry->last_used = ++clock;
    if (__builtin_expect(entry != last_, 0)) SetLast(entry);
    return entry;
  }
  // Dropping memory may run Python code, which may call the owner of this set.
  void SetLast(EntryPtr entry);

  static uint64_t clock;
  std::string label_;
  bool keeps_last_;
  Entries entries_;  // by hash
  EntryPtr last_;
  uint64_t newest_made_at_ = 0;
};

class PlanTable {
 public:
  static constexpr size_t kMostPlans = 4096;
  static constexpr size_t kDroppedShare = 32;  // 1 / 32 of all plans are dropped at a time
  // The maximum size of plans without the memory of their instances, which IdleMemory limits.
  static constexpr int64_t kMostBytes = int64_t{48} << 20;

  static PlanTable& Get();
  // Returns, for every set with plans, the label, the number of plans, their bytes, and the bytes
  // of their idle instances.
  py::list Describe() const;
  // Drops every plan except the last plan of each owner; with `all`, the last plans as well.
  void Release(bool all);

 private:
  friend class PlanSet;
  using Dropped = std::vector<EntryPtr>;

  void Count(const PlanEntry& entry, int sign) {
    n_plans_ += static_cast<size_t>(sign);
    bytes_ += sign * entry.bytes;
  }
  void KeepBound(Dropped* dropped);
  template <typename May>
  void Drop(const May& may_drop, Dropped* dropped);

  std::vector<PlanSet*> sets_;
  size_t n_plans_ = 0;
  int64_t bytes_ = 0;
};

// Returns a new reference to the Python object that owns a set, `_runtime.Plans`. On failure,
// returns null and sets an error.
PyObject* NewPlans(std::string label, bool keeps_last);
PlanSet& PlansOf(PyObject* plans);
void BindPlanTable(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_PLAN_TABLE_H_
