// Creates and reads DLPack capsules for arrays of other libraries.
#ifndef OPWRIGHT_PYTHON_CAPSULES_H_
#define OPWRIGHT_PYTHON_CAPSULES_H_

#include <type_traits>

#include "dlpack/dlpack.h"
#include "python/arrays/numpy_bridge.h"
#include "runtime/device/device.h"
#include "runtime/status.h"

namespace opwright {

template <typename Managed>
constexpr bool kIsVersioned = std::is_same_v<Managed, DLManagedTensorVersioned>;

// The name of a capsule that is not consumed yet.
template <typename Managed>
constexpr const char* kCapsuleName = kIsVersioned<Managed> ? "dltensor_versioned" : "dltensor";

template <typename Managed>
constexpr const char* kUsedCapsuleName =
    kIsVersioned<Managed> ? "used_dltensor_versioned" : "used_dltensor";

// Returns the capsule of an array's __dlpack__. The array's library makes the device's stream wait
// for its work on the array. Throws the exception of the library.
py::object AskForCapsule(const py::handle& array, const Device& device);

// Returns a tensor to its producer.
template <typename Managed>
void GiveBack(Managed* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// Whether we can read tensors of a producer with this version.
inline bool IsReadable(const DLManagedTensorVersioned& managed) {
  return managed.version.major == DLPACK_MAJOR_VERSION;
}
inline bool IsReadable(const DLManagedTensor&) { return true; }

// The flags of an exported tensor.
inline uint64_t PaddingOf(DLDataType dtype) {
  return dtype.bits < 8 ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0;
}

// Whether each element has its own bytes; a producer before DLPack 1.0 cannot declare this for
// elements of few bits.
inline bool HasWholeBytes(const DLManagedTensorVersioned& managed) {
  return (managed.flags & PaddingOf(managed.dl_tensor.dtype)) == PaddingOf(managed.dl_tensor.dtype);
}
inline bool HasWholeBytes(const DLManagedTensor& managed) {
  return PaddingOf(managed.dl_tensor.dtype) == 0;
}

inline bool IsReadOnly(const DLManagedTensorVersioned& managed) {
  return (managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}
inline bool IsReadOnly(const DLManagedTensor&) { return false; }

template <typename Managed>
void CheckReadable(const Managed& managed, const char* who) {
  if (IsReadable(managed)) {
    if (HasWholeBytes(managed)) return;
    Throw(ErrorKind::kDtype, who, ": must have a byte for each element, got elements of ",
          static_cast<int>(managed.dl_tensor.dtype.bits), " bits that are packed; unpack them");
  }
  if constexpr (kIsVersioned<Managed>) {
    Throw(ErrorKind::kFeed, who, ": DLPack ", DLPACK_MAJOR_VERSION, " is supported here, got ",
          managed.version.major, "; update one of the two libraries");
  }
}

template <typename Managed>
Managed* TakeFrom(const py::object& capsule) {
  void* managed = PyCapsule_GetPointer(capsule.ptr(), kCapsuleName<Managed>);
  if (PyCapsule_SetName(capsule.ptr(), kUsedCapsuleName<Managed>) != 0) {
    throw py::error_already_set();
  }
  return static_cast<Managed*>(managed);
}

// Calls `take`, which becomes the owner, with the content of a new capsule. Throws kFeed for
// anything else.
template <typename Take>
auto TakeCapsule(const py::object& capsule, const char* who, Take take) {
  if (PyCapsule_IsValid(capsule.ptr(), kCapsuleName<DLManagedTensorVersioned>)) {
    return take(TakeFrom<DLManagedTensorVersioned>(capsule));
  }
  if (PyCapsule_IsValid(capsule.ptr(), kCapsuleName<DLManagedTensor>)) {
    return take(TakeFrom<DLManagedTensor>(capsule));
  }
  Throw(ErrorKind::kFeed, who, ": __dlpack__ must return a new capsule, got another ",
        Py_TYPE(capsule.ptr())->tp_name);
}

// Whether the elements are contiguous in C order.
bool IsCompact(const DLTensor& tensor);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_CAPSULES_H_
