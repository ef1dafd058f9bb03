#include "runtime/values/scope.h"

#include <algorithm>
#include <utility>

namespace opwright {

ScopeVariable::ScopeVariable(std::string name, std::shared_ptr<ScopeTree> tree)
    : name_(std::move(name)), tree_(std::move(tree)) {}

std::shared_ptr<const Tensor> ScopeVariable::tensor() const {
  const std::lock_guard<std::mutex> lock(tree_->mutex);
  return tensor_;
}

void ScopeVariable::Replace(std::shared_ptr<const Tensor> tensor) {
  {
    const std::lock_guard<std::mutex> lock(tree_->mutex);
    tensor_.swap(tensor);
  }
  // The old tensor is freed here, outside the lock, since a device may acquire other locks to free
  // its memory.
  tree_->structure_version.fetch_add(1, std::memory_order_release);
  Touch();
}

Scope::Scope(std::shared_ptr<Scope> parent)
    : parent_(std::move(parent)), tree_(parent_ ? parent_->tree_ : std::make_shared<ScopeTree>()) {}

std::shared_ptr<ScopeVariable> Scope::Var(const std::string& name) {
  const std::lock_guard<std::mutex> lock(tree_->mutex);
  std::shared_ptr<ScopeVariable>& variable = variables_[name];
  if (!variable) {
    variable = std::make_shared<ScopeVariable>(name, tree_);
    tree_->structure_version.fetch_add(1, std::memory_order_release);
  }
  return variable;
}

std::shared_ptr<ScopeVariable> Scope::FindVar(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(tree_->mutex);
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    const auto found = scope->variables_.find(name);
    if (found != scope->variables_.end()) return found->second;
  }
  return nullptr;
}

std::vector<std::string> Scope::Names() const {
  std::vector<std::string> names;
  {
    const std::lock_guard<std::mutex> lock(tree_->mutex);
    names.reserve(variables_.size());
    for (const auto& entry : variables_) names.push_back(entry.first);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Scope::Erase(const std::string& name) {
  std::shared_ptr<ScopeVariable> erased;  // freed after the lock is released
  const std::lock_guard<std::mutex> lock(tree_->mutex);
  const auto found = variables_.find(name);
  if (found == variables_.end()) return false;
  erased.swap(found->second);
  variables_.erase(found);
  tree_->structure_version.fetch_add(1, std::memory_order_release);
  return true;
}

}  // namespace opwright
