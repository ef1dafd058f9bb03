// Tensors as DLPack capsules.
#include <memory>
#include <utility>

#include "dlpack/dlpack.h"
#include "python/errors.h"
#include "python/handles.h"

namespace opwright {

namespace {

// Owns the tensor for as long as the consumer keeps the capsule's content.
template <typename Managed>
struct Export {
  std::shared_ptr<const Tensor> tensor;
  Managed managed{};
};

template <typename Managed>
void Delete(Managed* managed) {
  delete static_cast<Export<Managed>*>(managed->manager_ctx);
}

// A capsule that nobody consumed still has its first name.
template <typename Managed>
void DestroyCapsule(PyObject* capsule) {
  constexpr bool versioned = std::is_same_v<Managed, DLManagedTensorVersioned>;
  const char* name = versioned ? "dltensor_versioned" : "dltensor";
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

template <typename Managed>
py::object MakeCapsule(const std::shared_ptr<const Tensor>& tensor) {
  constexpr bool versioned = std::is_same_v<Managed, DLManagedTensorVersioned>;
  auto made = std::make_unique<Export<Managed>>();
  made->tensor = tensor;
  made->managed.dl_tensor = tensor->AsDLTensor();
  made->managed.manager_ctx = made.get();
  made->managed.deleter = Delete<Managed>;
  if constexpr (versioned) {
    made->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  }
  PyObject* capsule = PyCapsule_New(&made->managed, versioned ? "dltensor_versioned" : "dltensor",
                                    DestroyCapsule<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  made.release();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

py::object ToDlpack(const std::shared_ptr<const Tensor>& tensor, const py::object& max_version,
                    const py::object& dl_device, const py::object& copy) {
  if (!dl_device.is_none() && !dl_device.equal(DlpackDevice(*tensor))) {
    throw py::buffer_error("__dlpack__: the tensor is on another device than the one asked for");
  }
  std::shared_ptr<const Tensor> exported = tensor;
  if (!copy.is_none() && copy.cast<bool>()) {
    exported = MakeTensor(tensor->device(), tensor->dtype, tensor->shape, "__dlpack__");
    tensor->device()->CopyWithin(exported->data(), tensor->data(), tensor->bytes());
  }
  tensor->device()->Synchronize();
  const bool versioned =
      !max_version.is_none() && max_version.cast<std::pair<int, int>>().first >= 1;
  return versioned ? MakeCapsule<DLManagedTensorVersioned>(exported)
                   : MakeCapsule<DLManagedTensor>(exported);
}

py::tuple DlpackDevice(const Tensor& tensor) {
  const DLDevice device = tensor.device()->dl_device();
  return py::make_tuple(static_cast<int>(device.device_type), device.device_id);
}

}  // namespace opwright
