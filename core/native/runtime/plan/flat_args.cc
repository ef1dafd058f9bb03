#include "runtime/plan/flat_args.h"

namespace opwright {

FlatArgs::FlatArgs(std::initializer_list<const Slots*> sides, const Device& device) {
  size_t count = 0;
  for (const Slots* slots : sides) {
    for (const auto& slot : *slots) count += slot.size();
  }
  tensors.reserve(count);
  strides.reserve(count);
  for (const Slots* slots : sides) {
    for (const auto& slot : *slots) {
      for (const Meta& meta : slot) Add(meta, device);
      slot_begin.push_back(static_cast<uint32_t>(tensors.size()));
    }
  }
  for (DLTensor& tensor : tensors) args.push_back(&tensor);
}

void FlatArgs::Add(const Meta& meta, const Device& device) {
  const auto ndim = static_cast<int32_t>(meta.shape.size());
  Shape& stride = strides.emplace_back(meta.shape.size() + 1);  // never an empty allocation
  FillRowMajorStrides(meta.shape.data(), ndim, stride.data());
  DLTensor tensor{};
  tensor.device = device.dl_device();
  tensor.ndim = ndim;
  tensor.dtype = meta.dtype;
  tensor.shape = ndim == 0 ? stride.data() : const_cast<int64_t*>(meta.shape.data());
  tensor.strides = stride.data();
  tensors.push_back(tensor);
}

}  // namespace opwright
