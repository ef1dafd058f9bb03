// A part of a storage, with dtype and shape. Tensors are values; copies share their memory.
#ifndef OPWRIGHT_RUNTIME_TENSOR_H_
#define OPWRIGHT_RUNTIME_TENSOR_H_

#include <memory>
#include <string>

#include "runtime/device/device.h"
#include "runtime/values/meta.h"

namespace opwright {

struct Tensor {
  std::shared_ptr<Storage> storage;
  DLDataType dtype;
  Shape shape;
  Shape strides;

  void* data() const { return storage->handle(); }
  int32_t ndim() const { return static_cast<int32_t>(shape.size()); }
  uint64_t bytes() const { return storage->bytes(); }
  const std::shared_ptr<Device>& device() const { return storage->device(); }
  bool HasMeta(DLDataType other_dtype, const int64_t* other_shape, int32_t other_ndim) const;
  // Returns a non-owning view, which is valid as long as this tensor.
  DLTensor AsDLTensor() const;
};

// Creates a compact tensor with undefined content; errors refer to it as `what`.
std::shared_ptr<const Tensor> MakeTensor(const std::shared_ptr<Device>& device, DLDataType dtype,
                                         Shape shape, const std::string& what);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_TENSOR_H_
