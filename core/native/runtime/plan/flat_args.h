// Converts slot metas to flat arrays of the ABI: a list of tensors, and the offset of each slot.
#ifndef OPWRIGHT_RUNTIME_FLAT_ARGS_H_
#define OPWRIGHT_RUNTIME_FLAT_ARGS_H_

#include <initializer_list>
#include <vector>

#include "runtime/plan/prepared.h"

namespace opwright {

// The tensors point into the source metas; data is NULL, and strides are compact.
struct FlatArgs {
  using Slots = std::vector<std::vector<Meta>>;

  std::vector<DLTensor> tensors;
  std::vector<DLTensor*> args;
  std::vector<uint32_t> slot_begin{0};
  std::vector<Shape> strides;

  FlatArgs(std::initializer_list<const Slots*> sides, const Device& device);
  FlatArgs(const FlatArgs&) = delete;
  FlatArgs& operator=(const FlatArgs&) = delete;

 private:
  void Add(const Meta& meta, const Device& device);
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_FLAT_ARGS_H_
