// Python's arguments for compiled plugins: metas of slots, and attributes, in the ABI's form.
#ifndef OPWRIGHT_PYTHON_NATIVE_ARGS_H_
#define OPWRIGHT_PYTHON_NATIVE_ARGS_H_

#include <memory>
#include <string>
#include <vector>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/prepared.h"

namespace opwright {

// From metas slot by slot, each a tuple of a shape and a dtype code. By the C API: lowering reads
// those of every kernel that it prepares.
std::vector<std::vector<Meta>> ToMetas(py::handle slots);

// Attributes as the ABI's structs, with the memory they point to. Nothing here may move once
// `attrs` was filled, hence the unique_ptrs.
class AttrStore {
 public:
  // From tuples of the name, AttrType and value of each attribute that is not absent.
  explicit AttrStore(py::handle attrs);
  const std::vector<ow_attr>& attrs() const { return attrs_; }

 private:
  ow_string Keep(const std::string& text);
  template <typename T>
  const T* Keep(std::vector<std::unique_ptr<std::vector<T>>>* store, std::vector<T> items,
                ow_attr* attr);
  void Add(const std::string& name, int type, py::handle value);

  std::vector<ow_attr> attrs_;
  std::vector<std::unique_ptr<std::string>> strings_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> ints_;
  std::vector<std::unique_ptr<std::vector<double>>> floats_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> bools_;
  std::vector<std::unique_ptr<std::vector<ow_string>>> lists_;
};

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_NATIVE_ARGS_H_
