#include "runtime/values/tensor.h"

#include <algorithm>
#include <utility>

namespace opwright {

namespace {
int64_t no_dims[1] = {0};  // non-null `shape` and `strides` of rank 0
}

bool Tensor::HasMeta(DLDataType other_dtype, const int64_t* other_shape, int32_t other_ndim) const {
  return SameDtype(dtype, other_dtype) && ndim() == other_ndim &&
         std::equal(shape.begin(), shape.end(), other_shape);
}

DLTensor Tensor::AsDLTensor() const {
  DLTensor view{};
  view.data = data();
  view.device = device()->dl_device();
  view.ndim = ndim();
  view.dtype = dtype;
  view.shape = shape.empty() ? no_dims : const_cast<int64_t*>(shape.data());
  view.strides = shape.empty() ? no_dims : const_cast<int64_t*>(strides.data());
  return view;
}

std::shared_ptr<const Tensor> MakeTensor(const std::shared_ptr<Device>& device, DLDataType dtype,
                                         Shape shape, const std::string& what) {
  const auto ndim = static_cast<int32_t>(shape.size());
  const int64_t numel = CheckedNumel(what, shape.data(), ndim, ItemSize(dtype));
  const auto bytes = static_cast<uint64_t>(numel * ItemSize(dtype));
  auto tensor = std::make_shared<Tensor>();
  tensor->storage = MakeRetirable<Storage>(device, bytes, what);
  tensor->dtype = dtype;
  tensor->strides.resize(shape.size());
  FillRowMajorStrides(shape.data(), ndim, tensor->strides.data());
  tensor->shape = std::move(shape);
  return tensor;
}

}  // namespace opwright
