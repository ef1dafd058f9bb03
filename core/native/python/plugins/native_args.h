// Converts Python's arguments for compiled plugins, slot metas and attributes, to the ABI's
// structs.
#ifndef OPWRIGHT_PYTHON_NATIVE_ARGS_H_
#define OPWRIGHT_PYTHON_NATIVE_ARGS_H_

#include <memory>
#include <string>
#include <vector>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/prepared.h"

namespace opwright {

// Converts the metas of each slot, which are tuples of a shape and a dtype code. The function uses
// the C API, because lowering calls it for every kernel that is prepared.
std::vector<std::vector<Meta>> ToMetas(py::handle slots);

// Converts attributes to structs of the ABI, and owns the memory that these structs point to. The
// memory is held by unique_ptrs, because it must not move once `attrs` points to it.
class AttrStore {
 public:
  // Converts tuples of the name, AttrType and value of each present attribute.
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
