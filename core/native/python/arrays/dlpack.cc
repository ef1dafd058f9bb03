// Tensors as DLPack capsules, and arrays of other libraries as tensors.
#include <memory>
#include <utility>

#include "python/arrays/host_arrays.h"
#include "python/bind/capsules.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "runtime/device/event.h"
#include "runtime/status.h"
#include "runtime/values/scope.h"

namespace opwright {

namespace {

// Owns the tensor while the consumer holds the content of the capsule.
template <typename Managed>
struct Export {
  std::shared_ptr<const Tensor> tensor;
  Managed managed{};
};

template <typename Managed>
void Delete(Managed* managed) {
  delete static_cast<Export<Managed>*>(managed->manager_ctx);
}

// A capsule that was not consumed still has its original name.
template <typename Managed>
void DestroyCapsule(PyObject* capsule) {
  const char* name = kCapsuleName<Managed>;
  if (!PyCapsule_IsValid(capsule, name)) return;
  GiveBack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

template <typename Managed>
py::object MakeCapsule(const std::shared_ptr<const Tensor>& tensor) {
  auto made = std::make_unique<Export<Managed>>();
  made->tensor = tensor;
  made->managed.dl_tensor = tensor->AsDLTensor();
  made->managed.manager_ctx = made.get();
  made->managed.deleter = Delete<Managed>;
  if constexpr (kIsVersioned<Managed>) {
    made->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    made->managed.flags = PaddingOf(tensor->dtype);
    if (tensor->storage->is_read_only()) made->managed.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  } else if (tensor->storage->is_read_only()) {
    throw py::buffer_error(
        "__dlpack__: the memory is read-only, which DLPack before 1.0 cannot express");
  } else if (PaddingOf(tensor->dtype) != 0) {
    throw py::buffer_error("__dlpack__: " + std::string(DtypeName(tensor->dtype)) +
                           " has a byte for each element, which DLPack before 1.0 cannot express");
  }
  PyObject* capsule = PyCapsule_New(&made->managed, kCapsuleName<Managed>, DestroyCapsule<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  made.release();
  return py::reinterpret_steal<py::object>(capsule);
}

// The producer's tensor; its deleter is called with the GIL held.
template <typename Managed>
std::shared_ptr<void> HoldManaged(Managed* managed) {
  return {managed, [](Managed* held) {
            if (held->deleter == nullptr || !Py_IsInitialized()) return;
            const py::gil_scoped_acquire gil;
            const py::error_scope scope;
            GiveBack(held);
          }};
}

// Returns the tensor of a TensorHandle or ScopeVariable, or null for an array of another library.
std::shared_ptr<const Tensor> FindTensor(const py::handle& array) {
  if (py::isinstance<TensorHandle>(array)) return array.cast<TensorHandle&>().tensor;
  if (py::isinstance<ScopeVariable>(array)) return array.cast<ScopeVariable&>().tensor();
  return nullptr;
}

// Rejects handles that are not addresses, whatever the DLPack code: only their own device can
// interpret them.
void CheckAddresses(const Device& from, const Device& to, const char* who) {
  if (from.addressable() && to.addressable()) return;
  Throw(ErrorKind::kFeed, who, ": must be on ", NameBeside(to, from), ", got a tensor on ",
        NameBeside(from, to), "; copy it to the host");
}

template <typename Managed>
std::shared_ptr<const Tensor> Import(Managed* managed, const std::shared_ptr<Device>& device,
                                     const char* who) {
  std::shared_ptr<void> owner = HoldManaged(managed);
  CheckReadable(*managed, who);
  const DLTensor& given = managed->dl_tensor;
  const DLDevice own = device->dl_device();
  if (given.device.device_type != own.device_type || given.device.device_id != own.device_id) {
    Throw(ErrorKind::kFeed, who, ": must be on ", device->name(), ", got DLPack device type ",
          static_cast<int>(given.device.device_type), ", number ", given.device.device_id);
  }
  Shape shape(given.shape, given.shape + given.ndim);
  if (!IsCompact(given) || (given.byte_offset != 0 && !device->addressable())) {
    Throw(ErrorKind::kFeed, who, ": an array on a device must be contiguous, got one of shape ",
          ShapeText(shape), " with other strides; make it contiguous, such as with copy()");
  }
  DtypeFromCode(DtypeToCode(given.dtype));  // throws for an unknown dtype
  return Borrow(device, given.dtype, std::move(shape),
                static_cast<char*>(given.data) + given.byte_offset, std::move(owner), who,
                IsReadOnly(*managed));
}

// Returns a tensor through the exchange API of its library, ordered after that library's work, or
// null for a library without an exchange API.
std::shared_ptr<const Tensor> FindExchanged(const py::handle& array,
                                            const std::shared_ptr<Device>& device,
                                            const char* who) {
  ArrayKind kind;
  if (!FindKind(Py_TYPE(array.ptr()), &kind) || kind.api == nullptr ||
      kind.api->current_work_stream == nullptr || RequiresGradient(kind, array.ptr())) {
    return nullptr;
  }
  DLManagedTensorVersioned* managed = nullptr;
  void* stream = nullptr;
  const DLDevice place = device->dl_device();
  if (kind.api->current_work_stream(place.device_type, place.device_id, &stream) != 0) {
    throw py::error_already_set();
  }
  // For CUDA and ROCm, NULL is the default stream. For other devices, NULL does not mean a stream,
  // and __dlpack__ must order the work.
  const bool has_default = place.device_type == kDLCUDA || place.device_type == kDLROCM;
  if (stream == nullptr && !has_default) return nullptr;
  if (kind.api->managed_tensor_from_py_object_no_sync(array.ptr(), &managed) != 0) {
    throw py::error_already_set();
  }
  auto tensor = Import(managed, device, who);
  if (stream != device->stream()) Event(device).OrderBehind(stream);
  return tensor;
}

// Orders a consumer's stream after our work, as DLPack specifies: None for an unknown stream,
// -1 for a stream that is already ordered.
void HandOver(const std::shared_ptr<Device>& device, const py::object& stream) {
  if (stream.is_none() || device->stream() == nullptr) {
    device->Synchronize();
    return;
  }
  const auto number = stream.cast<int64_t>();
  if (number != -1) Event(device).OrderAhead(reinterpret_cast<void*>(number));
}

}  // namespace

py::object AskForCapsule(const py::handle& array, const Device& device) {
  py::dict options;
  if (device.stream() != nullptr) {
    options["stream"] = reinterpret_cast<uintptr_t>(device.stream());
  }
  const bool detaches = Detaching::IsOn() && py::hasattr(array, "requires_grad");
  const py::object export_array =
      detaches ? array.attr("detach")().attr("__dlpack__") : array.attr("__dlpack__");
  options["max_version"] = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  try {
    return export_array(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  options.attr("pop")("max_version");  // older than DLPack 1.0
  return export_array(**options);
}

bool IsCompact(const DLTensor& tensor) {
  if (tensor.strides == nullptr || IsEmpty(tensor.shape, tensor.ndim)) return true;
  int64_t stride = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

py::object ToDlpack(const std::shared_ptr<const Tensor>& tensor, const py::object& stream,
                    const py::object& max_version, const py::object& dl_device,
                    const py::object& copy) {
  if (!dl_device.is_none() && !dl_device.equal(DlpackDevice(*tensor))) {
    throw py::buffer_error("__dlpack__: the tensor is not on the requested device");
  }
  std::shared_ptr<const Tensor> exported = tensor;
  if (!copy.is_none() && copy.cast<bool>()) {
    exported = MakeTensor(tensor->device(), tensor->dtype, tensor->shape, "__dlpack__");
    tensor->device()->CopyWithin(exported->data(), tensor->data(), tensor->bytes());
  }
  HandOver(tensor->device(), stream);
  const bool versioned =
      !max_version.is_none() && max_version.cast<std::pair<int, int>>().first >= 1;
  return versioned ? MakeCapsule<DLManagedTensorVersioned>(exported)
                   : MakeCapsule<DLManagedTensor>(exported);
}

namespace {

// The vector width of device kernels: tensors are aligned to it.
constexpr uintptr_t kVectorBytes = 16;

bool MustBeCopied(const Device& device, const void* data) {
  if (device.is_host() || !device.addressable()) return false;
  return reinterpret_cast<uintptr_t>(data) % kVectorBytes != 0;
}

// Copies elements to aligned memory, since a slice of an array can have any alignment.
std::shared_ptr<const Tensor> CopyAligned(const std::shared_ptr<Device>& device, DLDataType dtype,
                                          Shape shape, const void* data, const char* who) {
  auto tensor = MakeTensor(device, dtype, std::move(shape), who);
  device->CopyWithin(tensor->data(), data, tensor->bytes());
  device->Synchronize();  // after this, the owner may free the memory
  return tensor;
}

}  // namespace

std::shared_ptr<const Tensor> Borrow(const std::shared_ptr<Device>& device, DLDataType dtype,
                                     Shape shape, void* data, std::shared_ptr<void> owner,
                                     const char* who, bool is_read_only) {
  const auto ndim = static_cast<int32_t>(shape.size());
  const int64_t numel = CheckedNumel(who, shape.data(), ndim, ItemSize(dtype));
  const auto bytes = static_cast<uint64_t>(numel * ItemSize(dtype));
  if (bytes != 0 && MustBeCopied(*device, data)) {
    return CopyAligned(device, dtype, std::move(shape), data, who);
  }
  auto tensor = std::make_shared<Tensor>();
  tensor->dtype = dtype;
  tensor->strides.resize(shape.size());
  FillRowMajorStrides(shape.data(), ndim, tensor->strides.data());
  tensor->shape = std::move(shape);
  tensor->storage = MakeRetirable<Storage>(device, bytes == 0 ? nullptr : data, bytes,
                                           std::move(owner), is_read_only);
  return tensor;
}

bool IsOnDevice(const py::handle& array, const std::shared_ptr<Device>& device) {
  if (device->is_host() || PyArray_Check(array.ptr())) return false;
  if (const auto tensor = FindTensor(array)) return tensor->device() == device;
  if (!py::hasattr(array, "__dlpack_device__")) return HasInterface(array, *device);
  const auto place = array.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  const DLDevice own = device->dl_device();
  return place.first == static_cast<int>(own.device_type) && place.second == own.device_id;
}

std::shared_ptr<const Tensor> FromArray(const py::handle& array,
                                        const std::shared_ptr<Device>& device, const char* who) {
  if (auto tensor = FindTensor(array)) {
    if (tensor->device() == device) return tensor;
    CheckAddresses(*tensor->device(), *device, who);
  }
  if (HasInterface(array, *device)) return FromInterface(array, device, who);
  if (auto tensor = FindExchanged(array, device, who)) return tensor;
  const py::object capsule = AskForCapsule(array, *device);
  return TakeCapsule(capsule, who, [&](auto* managed) { return Import(managed, device, who); });
}

py::tuple DlpackDevice(const Tensor& tensor) {
  const DLDevice device = tensor.device()->dl_device();
  return py::make_tuple(static_cast<int>(device.device_type), device.device_id);
}

}  // namespace opwright
