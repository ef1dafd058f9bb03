// Scopes: trees of named variables that plans bind to and threads share.
#ifndef OPWRIGHT_RUNTIME_SCOPE_H_
#define OPWRIGHT_RUNTIME_SCOPE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/values/tensor.h"

namespace opwright {

// The data that all scopes of one tree share. The whole tree has one structure version, so a
// plan bound to a child detects a change in a parent by comparing one number.
struct ScopeTree {
  std::mutex mutex;
  std::atomic<uint64_t> structure_version{1};
};

class ScopeVariable {
 public:
  ScopeVariable(std::string name, std::shared_ptr<ScopeTree> tree);

  const std::string& name() const { return name_; }
  // Returns the current tensor, or null if the variable is empty.
  std::shared_ptr<const Tensor> tensor() const;
  void Replace(std::shared_ptr<const Tensor> tensor);
  // The version, which every writer increments after the write.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void Touch() { version_.fetch_add(1, std::memory_order_release); }

 private:
  const std::string name_;
  const std::shared_ptr<ScopeTree> tree_;
  std::shared_ptr<const Tensor> tensor_;  // guarded by the tree's mutex
  std::atomic<uint64_t> version_{0};
};

class Scope : public std::enable_shared_from_this<Scope> {
 public:
  explicit Scope(std::shared_ptr<Scope> parent);

  const std::shared_ptr<Scope>& parent() const { return parent_; }
  uint64_t structure_version() const {
    return tree_->structure_version.load(std::memory_order_acquire);
  }
  // Returns this scope's own variable; if it does not exist, an empty one is created.
  std::shared_ptr<ScopeVariable> Var(const std::string& name);
  // Searches this scope, then its parents; returns null if the variable is not found.
  std::shared_ptr<ScopeVariable> FindVar(const std::string& name) const;
  std::vector<std::string> Names() const;
  bool Erase(const std::string& name);

 private:
  const std::shared_ptr<Scope> parent_;
  const std::shared_ptr<ScopeTree> tree_;
  std::unordered_map<std::string, std::shared_ptr<ScopeVariable>> variables_;  // guarded likewise
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_SCOPE_H_
