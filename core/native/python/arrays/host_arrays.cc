#include "python/arrays/host_arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "python/bind/capsules.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "runtime/library/host.h"

namespace opwright {

namespace {

constexpr const char* kLent = "opwright.lent";

thread_local int n_detaching = 0;  // number of enabled Detaching objects in this thread

template <typename Managed>
void FreeLent(PyObject* capsule) {
  GiveBack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, kLent)));
}

// Returns a capsule that owns a producer's tensor. On failure, returns the tensor to its producer,
// sets an error and returns null.
template <typename Managed>
PyObject* Own(Managed* managed) {
  PyObject* owner = PyCapsule_New(managed, kLent, FreeLent<Managed>);
  if (owner == nullptr) GiveBack(managed);
  return owner;
}

// Returns an ndarray over the memory of `owner` and steals the reference to it; strides are in
// bytes, and null means compact.
PyObject* ViewOf(PyArray_Descr* descr, int ndim, const npy_intp* shape, const npy_intp* strides,
                 void* data, bool read_only, PyObject* owner) noexcept {
  Py_INCREF(descr);
  int flags = strides == nullptr ? NPY_ARRAY_CARRAY_RO : 0;
  if (!read_only) flags |= NPY_ARRAY_WRITEABLE;
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides,
                                         data == nullptr ? Nowhere() : data, flags, nullptr);
  if (array == nullptr) {
    Py_DECREF(owner);
    return nullptr;
  }
  if (PyArray_SetBaseObject(AsArray(array), owner) < 0) Py_CLEAR(array);
  return array;
}

const npy_intp* Dims(const int64_t* shape) { return reinterpret_cast<const npy_intp*>(shape); }

void* DataOf(const DLTensor& tensor) {
  return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
}

bool IsAligned(const void* data, int64_t item_bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item_bytes) == 0;
}

// PyTorch's placeholder tensors, as used in tracing, have elements but no memory.
bool HasMemory(const DLTensor& tensor) {
  return tensor.data != nullptr || IsEmpty(tensor.shape, tensor.ndim);
}

// Returns the strides, in bytes, of a tensor that kernels cannot read directly.
Shape StridesOf(const DLTensor& tensor) {
  Shape strides(static_cast<size_t>(tensor.ndim) + 1);  // not empty, since NULL means compact
  if (IsCompact(tensor)) {
    FillRowMajorStrides(tensor.shape, tensor.ndim, strides.data());
  } else {
    std::copy_n(tensor.strides, tensor.ndim, strides.begin());
  }
  for (int64_t& stride : strides) stride *= ItemSize(tensor.dtype);
  return strides;
}

// Returns an ndarray over a tensor on the host with at most NPY_MAXDIMS dimensions; the ndarray
// keeps `owner` alive. Throws for an unknown dtype.
PyObject* ViewOf(const DLTensor& tensor, bool read_only, PyObject* owner) {
  PyArray_Descr* descr = DescrOf(DtypeFromCode(DtypeToCode(tensor.dtype)));
  const bool is_ready = IsCompact(tensor) && IsAligned(DataOf(tensor), ItemSize(tensor.dtype));
  const Shape strides = is_ready ? Shape() : StridesOf(tensor);
  return ViewOf(descr, tensor.ndim, Dims(tensor.shape), is_ready ? nullptr : Dims(strides.data()),
                DataOf(tensor), read_only, Py_NewRef(owner));
}

bool IsOnHost(const DLTensor& tensor) {
  return tensor.device.device_type == kDLCPU || tensor.device.device_type == kDLCUDAHost;
}

bool CanView(const DLTensor& tensor) {
  return IsOnHost(tensor) && HasMemory(tensor) && tensor.ndim <= NPY_MAXDIMS;
}

PyObject* LendByApi(const ArrayKind& kind, PyObject* array, bool is_read) {
  if (is_read && kind.api->dltensor_from_py_object_no_sync != nullptr) {
    // Reads the array's own DLTensor, so no owner is created. The DLTensor lacks the flags for
    // read-only memory and for elements of few bits that are stored in separate bytes.
    DLTensor seen{};
    if (kind.api->dltensor_from_py_object_no_sync(array, &seen) != 0) return nullptr;
    if (PaddingOf(seen.dtype) == 0) return CanView(seen) ? ViewOf(seen, true, array) : nullptr;
  }
  DLManagedTensorVersioned* managed = nullptr;
  if (kind.api->managed_tensor_from_py_object_no_sync(array, &managed) != 0) return nullptr;
  PyObject* owner = Own(managed);
  if (owner == nullptr) return nullptr;
  const DLTensor& tensor = managed->dl_tensor;
  const py::object held = py::reinterpret_steal<py::object>(owner);
  const bool is_viewed = IsReadable(*managed) && HasWholeBytes(*managed) && CanView(tensor);
  return is_viewed ? ViewOf(tensor, IsReadOnly(*managed), owner) : nullptr;
}

// Finds the dtype of a buffer's items; returns false if it is not supported.
bool FindItemDtype(const Py_buffer& buffer, DLDataType* dtype) {
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0' || buffer.itemsize > 8) return false;
  const auto is_one_of = [&](const char* letters) {
    return std::strchr(letters, format[0]) != nullptr;
  };
  const auto bits = static_cast<uint8_t>(8 * buffer.itemsize);
  if (is_one_of("bhilq")) {
    *dtype = {kDLInt, bits, 1};
  } else if (is_one_of("BHILQ")) {
    *dtype = {kDLUInt, bits, 1};
  } else if (is_one_of("efd")) {
    *dtype = {kDLFloat, bits, 1};
  } else {
    *dtype = {kDLBool, bits, 1};
    return format[0] == '?';
  }
  return true;
}

void ReleaseBuffer(PyObject* capsule) {
  const std::unique_ptr<Py_buffer> buffer(
      static_cast<Py_buffer*>(PyCapsule_GetPointer(capsule, kLent)));
  PyBuffer_Release(buffer.get());
}

// Uses a capsule rather than a memoryview, which would need two more objects.
PyObject* LendByBuffer(PyObject* array) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(array, buffer.get(), PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    return nullptr;
  }
  PyObject* owner = PyCapsule_New(buffer.get(), kLent, ReleaseBuffer);
  if (owner == nullptr) {
    PyBuffer_Release(buffer.get());
    return nullptr;
  }
  const Py_buffer& held = *buffer.release();
  DLDataType dtype{};
  if (!FindItemDtype(held, &dtype) || !IsAligned(held.buf, held.itemsize)) {
    Py_DECREF(owner);
    return nullptr;
  }
  return ViewOf(DescrOf(dtype), held.ndim, held.shape, nullptr, held.buf, held.readonly != 0,
                owner);
}

// A result that was passed to another library; it exists until that library releases it.
struct Given {
  DLManagedTensorVersioned managed{};
  PyObject* array = nullptr;
  std::vector<int64_t> dims;  // shape, strides
};

void DropGiven(DLManagedTensorVersioned* managed) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE gil = PyGILState_Ensure();  // costs a third of pybind11's
  const std::unique_ptr<Given> given(static_cast<Given*>(managed->manager_ctx));
  Py_DECREF(given->array);
  PyGILState_Release(gil);
}

PyObject* GiveArray(const ArrayKind& kind, PyObject* result) {
  PyArrayObject* array = AsArray(result);
  auto given = std::make_unique<Given>();
  const int ndim = PyArray_NDIM(array);
  given->dims.assign(PyArray_DIMS(array), PyArray_DIMS(array) + ndim);
  given->dims.resize(2 * static_cast<size_t>(ndim));
  FillRowMajorStrides(given->dims.data(), ndim, given->dims.data() + ndim);
  DLManagedTensorVersioned& managed = given->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = given.get();
  managed.deleter = DropGiven;
  managed.flags = PaddingOf(DtypeOf(PyArray_DESCR(array), "a result"));
  managed.dl_tensor = {PyArray_DATA(array),
                       {kDLCPU, 0},
                       ndim,
                       DtypeOf(PyArray_DESCR(array), "a result"),
                       given->dims.data(),
                       given->dims.data() + ndim,
                       0};
  given->array = Py_NewRef(result);
  void* made = nullptr;
  // The library owns the tensor from here on, even if the call fails.
  if (kind.api->managed_tensor_to_py_object_no_sync(&given.release()->managed, &made) != 0) {
    return nullptr;
  }
  return static_cast<PyObject*>(made);
}

PyObject* GiveTuple(const ArrayKind& kind, PyObject* results) {
  const Py_ssize_t n = PyTuple_GET_SIZE(results);
  PyObject* given = PyTuple_New(n);
  for (Py_ssize_t i = 0; given != nullptr && i < n; ++i) {
    PyObject* item = GiveArray(kind, PyTuple_GET_ITEM(results, i));
    if (item == nullptr) {
      Py_CLEAR(given);
    } else {
      PyTuple_SET_ITEM(given, i, item);
    }
  }
  return given;
}

// Returns the newest supported exchange table of a type, or null if it has none.
const DLPackExchangeAPI* FindApi(PyTypeObject* type) {
  PyObject* capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  void* table = capsule == nullptr ? nullptr : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_XDECREF(capsule);
  PyErr_Clear();
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(table);
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) {
    header = header->prev_api;
  }
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

bool HasAttribute(PyTypeObject* type, const char* name) {
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), name) != 0;
}

void CheckDtype(DLDataType dtype, const char* who) {
  try {
    DtypeFromCode(DtypeToCode(dtype));
  } catch (const Error&) {
    Throw(ErrorKind::kDtype, who, ": a tensor holds numbers or bools, got DLPack's type code ",
          static_cast<int>(dtype.code), " of ", static_cast<int>(dtype.bits), " bits; cast it");
  }
}

// Takes ownership of a DLPack tensor on the host, with any strides, and returns an ndarray over its
// memory; throws.
template <typename Managed>
py::object Import(Managed* managed, const char* who) {
  const py::object owner = py::reinterpret_steal<py::object>(Own(managed));
  if (!owner) throw py::error_already_set();
  CheckReadable(*managed, who);
  const DLTensor& tensor = managed->dl_tensor;
  if (!IsOnHost(tensor)) {
    Throw(ErrorKind::kFeed, who, ": must be on the host, got DLPack device type ",
          static_cast<int>(tensor.device.device_type), "; copy it to the host");
  }
  if (!HasMemory(tensor)) {
    Throw(ErrorKind::kFeed, who,
          ": must be an array with values, got an array without memory; call the "
          "operator outside of tracing");
  }
  CheckDtype(tensor.dtype, who);
  if (tensor.ndim > NPY_MAXDIMS) {
    Throw(ErrorKind::kShape, who, ": must have at most ", NPY_MAXDIMS, " dimensions, got ",
          tensor.ndim, "; reshape it");
  }
  PyObject* array = ViewOf(tensor, IsReadOnly(*managed), owner.ptr());
  if (array == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(array);
}

py::object ReadHostArray(const py::object& array, const char* who) {
  const py::object capsule = AskForCapsule(array, *HostDevice());
  return TakeCapsule(capsule, who, [&](auto* managed) { return Import(managed, who); });
}

py::object FindLent(const py::object& array) {
  ArrayKind kind;
  PyObject* lent = nullptr;
  if (!PyArray_Check(array.ptr()) && FindKind(Py_TYPE(array.ptr()), &kind)) {
    lent = Lend(kind, array.ptr(), true);
  }
  return lent == nullptr ? py::none() : py::reinterpret_steal<py::object>(lent);
}

struct DetachGuard {};

py::object GiveLike(const py::object& result, const py::object& like) {
  ArrayKind kind;
  if (!FindKind(Py_TYPE(like.ptr()), &kind) || kind.api == nullptr) return py::none();
  PyObject* given = GiveToLibrary(kind, result.ptr());
  if (given == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(given);
}

}  // namespace

bool FindKind(PyTypeObject* type, ArrayKind* kind) noexcept {
  // A process uses two or three array libraries; types beyond the table's size are looked up each
  // time.
  static std::array<ArrayKind, 8> known;
  static size_t n_known = 0;
  for (size_t i = 0; i < n_known; ++i) {
    if (known[i].type != type) continue;
    *kind = known[i];
    return true;
  }
  *kind = {type, FindApi(type), HasAttribute(type, "requires_grad")};
  const PyBufferProcs* buffer = type->tp_as_buffer;
  const bool has_buffer = buffer != nullptr && buffer->bf_getbuffer != nullptr;
  if (kind->api == nullptr && !(has_buffer && HasAttribute(type, "__dlpack__"))) return false;
  if (n_known < known.size()) {
    Py_INCREF(type);  // so that its address is never reused
    known[n_known++] = *kind;
  }
  return true;
}

void Detaching::Add(int n) { n_detaching += n; }

bool Detaching::IsOn() { return n_detaching > 0; }

bool RequiresGradient(const ArrayKind& kind, PyObject* array) {
  if (!kind.has_gradients || Detaching::IsOn()) return false;
  static PyObject* name = PyUnicode_InternFromString("requires_grad");
  PyObject* answer = PyObject_GetAttr(array, name);
  Py_XDECREF(answer);
  if (answer == nullptr) PyErr_Clear();
  return answer != Py_False;
}

PyObject* Lend(const ArrayKind& kind, PyObject* array, bool is_read) {
  PyObject* lent = nullptr;
  try {
    if (!RequiresGradient(kind, array)) {
      lent = kind.api == nullptr ? LendByBuffer(array) : LendByApi(kind, array, is_read);
    }
  } catch (const Error&) {  // an unknown dtype, or bfloat16 without ml_dtypes; the path through
    lent = nullptr;         // __dlpack__ raises the error
  }
  if (lent == nullptr) PyErr_Clear();
  return lent;
}

PyObject* ReadReady(PyObject* array, ArrayKind* kind) {
  PyObject* read = nullptr;
  if (!PyArray_Check(array)) {
    if (FindKind(Py_TYPE(array), kind)) read = Lend(*kind, array, true);
  } else if (PyArray_CheckExact(array) && PyArray_ISNOTSWAPPED(AsArray(array))) {
    read = Py_NewRef(array);
  }
  if (read == nullptr || IsReady(read)) return read;
  PyObject* copy = PyArray_FromArray(AsArray(read), nullptr, NPY_ARRAY_CARRAY_RO);
  Py_DECREF(read);
  if (copy == nullptr) throw py::error_already_set();
  return copy;
}

PyObject* GiveToLibrary(const ArrayKind& kind, PyObject* result) noexcept {
  try {
    return PyTuple_CheckExact(result) ? GiveTuple(kind, result) : GiveArray(kind, result);
  } catch (...) {
    return SetPythonError();
  }
}

void BindHostArrays(py::module_& module) {
  module.def("find_lent", &FindLent, py::arg("array"));
  module.def("read_host_array", &ReadHostArray, py::arg("array"), py::arg("who"));
  py::class_<DetachGuard>(
      module, "detach_guard",
      "While it is entered, arrays that require a gradient are read as their detach().")
      .def(py::init<>())
      .def("__enter__", [](const DetachGuard&) { Detaching::Add(1); })
      .def("__exit__", [](const DetachGuard&, const py::args&) { Detaching::Add(-1); });
  module.def("give_like", &GiveLike, py::arg("result"), py::arg("like"));
}

}  // namespace opwright
